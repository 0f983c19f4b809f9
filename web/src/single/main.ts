import "./single.css";
import { mount } from "svelte";
import { contents } from "./contents.ts";
import SinglePage from "./SinglePage.svelte";

const target = document.getElementById("page")!;

contents()
  .then((given) => mount(SinglePage, { target, props: { given } }))
  .catch((error: unknown) => {
    target.textContent = `This page is damaged, or this browser is too old to open it (${String(error)}). Get it again, or use another browser.`;
  });
