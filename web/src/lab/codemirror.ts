// The editor, fetched when a lab is opened. It lives in a shadow root, where CodeMirror's styles are sheets that it makes
// itself: the page's policy lets no style into the document.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { rust } from "@codemirror/legacy-modes/mode/rust";
import { EditorState, type Extension, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface EditorHandle {
  /** Shows a text; what was done to the one before can no longer be undone. */
  show(text: string, language: "python" | "wgsl", at: number): void;
  /** Marks a line as wrong, and goes there; null: none is. */
  mark(line: number | null): void;
  focus(): void;
  end(): void;
}

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--third)" },
  { tag: [tags.comment, tags.docString], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--hot)" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)], color: "var(--fourth)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--card)", fontSize: "var(--small)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--card)", color: "var(--muted)", border: "0" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--sunk) 60%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--warm)" },
  ".cm-wrong": { backgroundColor: "color-mix(in srgb, var(--bad) 18%, transparent)" },
});

/** A browser that replaces what is selected keeps its colours as inline styles, which the page's policy refuses. */
const typedOver = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    if (event.inputType !== "insertText" || event.data === null || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

const setWrong = StateEffect.define<number | null>(); // where the line begins

/** The line that is marked as wrong, until it is changed. */
const wrongLine = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (marks, { docChanged, effects }) => {
    for (const effect of effects)
      if (effect.is(setWrong))
        return effect.value === null ? Decoration.none : Decoration.set(Decoration.line({ class: "cm-wrong" }).range(effect.value));
    return docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

export function edit(host: HTMLElement, label: string, onChange: (text: string) => void): EditorHandle {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  let showing = false;
  const extensions = (language: Extension): Extension => [
    lineNumbers(),
    history(),
    drawSelection(),
    indentOnInput(),
    indentUnit.of("    "),
    bracketMatching(),
    highlightActiveLine(),
    syntaxHighlighting(colours),
    wrongLine,
    keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
    EditorView.contentAttributes.of({ "aria-label": label }),
    look,
    typedOver,
    language,
    EditorView.updateListener.of((update) => {
      if (update.docChanged && !showing) onChange(update.state.doc.toString());
    }),
  ];
  const view = new EditorView({ root, parent: root, state: EditorState.create({ extensions: extensions(python()) }) });
  return {
    show: (text, language, at) => {
      showing = true;
      const mode = language === "python" ? python() : StreamLanguage.define(rust);
      view.setState(EditorState.create({ doc: text, extensions: extensions(mode) }));
      showing = false;
      const line = view.state.doc.line(Math.min(at, view.state.doc.lines));
      // A file that is opened at its beginning moves nothing: CodeMirror would scroll the page, too.
      const effects = at > 1 ? [EditorView.scrollIntoView(line.from, { y: "center" })] : [];
      view.dispatch({ selection: { anchor: line.from }, effects });
    },
    mark: (line) => {
      const found = line === null || line > view.state.doc.lines ? null : view.state.doc.line(line);
      const effects: StateEffect<unknown>[] = [setWrong.of(found && found.from)];
      if (found) effects.push(EditorView.scrollIntoView(found.from, { y: "center" }));
      view.dispatch({ effects });
    },
    focus: () => view.focus(),
    end: () => view.destroy(),
  };
}
