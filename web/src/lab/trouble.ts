// Python's errors in plain words, with the file and the line.
export interface Trouble {
  message: string;
  path?: string; // in the package
  line?: number;
}

const FRAME = /File "(?:\/*tinygpt\/([^"]+)|<string>)", line (\d+)/g;
export const ANSWER = "answer.py"; // what a reader wrote that is no file of the package

/** Of an error's text; of several frames the last in one of the `edited` files tells most. */
export function troubleOf(text: string, edited: string[]): Trouble {
  const frames = Array.from(text.matchAll(FRAME), ([, path, line]) => ({ path: path ?? ANSWER, line: Number(line) }));
  const frame = frames.findLast(({ path }) => edited.includes(path)) ?? frames.at(-1);
  return { message: inWords(text.trim().split("\n").at(-1)?.trim() ?? text), ...frame };
}

const WORDS: [RegExp, (...found: string[]) => string][] = [
  [/^SyntaxError: \*x must be assignment target$/, () => "The page's Python has no stars in a list or a tuple: join them with +."],
  [
    /^SyntaxError: invalid syntax$/,
    () => "Python cannot read this line: a bracket, a colon or a comma may be missing, here or just before.",
  ],
  [/^SyntaxError: (.*)$/, (said) => `Python cannot read this line: ${said}.`],
  [/^IndentationError: (.*)$/, (said) => `The indentation does not fit: ${said}.`],
  [/^NameError: name '(.*)' isn't defined$/, (name) => `There is nothing called ${name} here.`],
  [/^AttributeError: '(.*)' object has no attribute '(.*)'$/, (kind, name) => `A ${kind} has no ${name}.`],
  [/^AttributeError: (.*)$/, (said) => `Something is asked for what it does not have: ${said}.`],
  [/^ImportError: (.*)$/, (said) => `An import fails: ${said}.`],
  [/^TypeError: unexpected keyword argument '(.*)'$/, (name) => `It is called with ${name}, which it does not take.`],
  [/^TypeError: (.*)$/, (said) => `The arguments do not fit: ${said}.`],
  [/^KeyError: (.*)$/, (name) => `There is no entry ${name}.`],
  [/^IndexError: (.*)$/, (said) => `A place is asked for that is not there: ${said}.`],
  [/^ZeroDivisionError.*$/, () => "Something is divided by zero."],
  [/^RuntimeError: maximum recursion depth exceeded$/, () => "It calls itself without end."],
  [/^MemoryError.*$/, () => "It takes more memory than the page has for Python."],
];

function inWords(line: string): string {
  for (const [pattern, say] of WORDS) {
    const found = line.match(pattern);
    if (found) return say(...found.slice(1));
  }
  const said = line.replace(/^(\w*Error|\w*Exception|PythonError): /, "");
  return said.charAt(0).toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? "" : ".");
}
