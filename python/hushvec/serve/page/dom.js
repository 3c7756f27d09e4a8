// Elements without HTML strings: what users type can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element; properties beginning with "on" are listeners, others attributes. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

// Characters that are not visible, and may change what is: controls, zero widths, changes of writing direction. Line ends and tabs
// stay, and joiners behind an emoji or a letter of a script that writes with them.
const UNSEEN = /((?!\r?\n|\t)(?!(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f]|(?![\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}])[\p{L}\p{M}])[\u200c\u200d])[\p{Cc}\p{Cf}\u034f\u115f\u1160\u2028\u2029\u3164\uffa0])/u;

/** A text of users, to be shown: characters that are not visible have their code points written on them. */
export function visible(text) {
  return String(text).split(UNSEEN).map((piece, number) => (number % 2 ? named(piece) : piece));
}

/** The same as one element, whose writing direction ends with it. */
export function isolated(text) {
  return el("bdi", {}, ...visible(text));
}

/** How many characters of a text are not visible. */
export function unseenIn(text) {
  return (text.split(UNSEEN).length - 1) / 2;
}

function named(letter) {
  const code = letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return el("span", { class: "unseen", "data-code": `U+${code}`, title: "a character that is not visible" }, letter);
}

export function byId(id) {
  return document.getElementById(id);
}

export function show(element, visible = true) {
  element.hidden = !visible;
}

/** A table that scrolls inside its own frame. */
export function tableView(name, columns, rows) {
  return el("div", { class: "table-scroll tall", tabindex: 0, role: "group", "aria-label": name },
    el("table", {}, el("caption", {}, name),
      el("thead", {}, el("tr", {}, ...columns.map((column) => el("th", { scope: "col" }, column)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell)))))));
}

/** Hands a text to the user as a file. */
export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A text file's text. Error: a sentence for the user. */
export async function textOf(file, most, size) {
  if (file.size > most) throw new Error(`The file is larger than ${size}: choose a smaller one.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch { /* said below */ }
  throw new Error("The file is not a UTF-8 text: save it as plain text, or paste the text itself.");
}

/** Says on a button what it is at, and that it is not to be pressed; null: that it is done. */
export function busy(button, words) {
  button.dataset.words ??= button.textContent;
  button.setAttribute("aria-disabled", String(words !== null));
  button.textContent = words ?? button.dataset.words;
}

/** Copies a text; the button says so for a moment. */
export async function copy(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select the text and copy it yourself";
  }
  setTimeout(() => { button.textContent = before; }, 1600);
}

/** Calls a function once calls have paused for some milliseconds. */
export function paused(milliseconds, call) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(call, milliseconds, ...values);
  };
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
