import { mount } from "svelte";
import Search from "./Search.svelte";

const search = mount(Search, { target: document.body });

export function open(): void {
  search.open();
}
