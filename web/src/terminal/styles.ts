// xterm.js puts its styles into <style> elements and style attributes, both of which the
// page's policy refuses. Here they go into style sheets that scripts construct, and into
// the style object, which it allows. The browser's tests fail on every refusal, so that a
// new version of xterm.js that does otherwise is noticed.
import type { Terminal } from '@xterm/xterm';

/** Lets an element that shows nothing take the place of a <style> element. */
function styleElement(real: Document, element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  let text = '';
  Object.defineProperty(element, 'textContent', {
    get: () => text,
    set: (css: string) => {
      text = css;
      sheet.replaceSync(css);
      if (!real.adoptedStyleSheets.includes(sheet)) real.adoptedStyleSheets.push(sheet);
    },
  });
  element.remove = () => {
    real.adoptedStyleSheets = real.adoptedStyleSheets.filter((each) => each !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

/** Runs work while the document makes such elements where it is asked for <style>. */
export function withoutStyleElements(real: Document, work: () => void): void {
  const createElement = Document.prototype.createElement.bind(real);
  const value = (tag: string) => (tag === 'style' ? styleElement(real, createElement('template')) : createElement(tag));
  Object.defineProperty(real, 'createElement', { value, configurable: true });
  try {
    work();
  } finally {
    Reflect.deleteProperty(real, 'createElement');
  }
}

interface Inside {
  _core?: { _renderService?: { _renderer?: { value?: { _rowFactory?: { _addStyle?: unknown } } } } };
}

/** Adds "name:value" to an element's style. */
export function addStyle(element: HTMLElement, style: string): void {
  const colon = style.indexOf(':');
  element.style.setProperty(style.slice(0, colon), style.slice(colon + 1));
}

/** Opens a terminal in an element. All its <style> elements are made then. */
export function openIn(host: HTMLElement, terminal: Terminal): void {
  withoutStyleElements(document, () => terminal.open(host));
  const rows = (terminal as Inside)._core?._renderService?._renderer?.value?._rowFactory;
  if (typeof rows?._addStyle !== 'function') throw new Error('xterm.js is not the version that this is made for');
  rows._addStyle = addStyle;
}
