// xterm.js puts its styles into <style> elements and style attributes, both of which the
// page's policy refuses. What it gets instead of the document makes elements that look
// the same to it: their styles go into style sheets that scripts may construct, and into
// the style object.

function applyStyle(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

/** An element without a look of its own, whose text is a style sheet while it exists. */
function styleElement(real: Document): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = real.createElement('template');
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

/** The document as xterm.js is to see it (its option documentOverride). */
export function documentFor(real: Document): Document {
  const createElement = (tag: string): HTMLElement => {
    if (tag === 'style') return styleElement(real);
    const element = real.createElement(tag);
    element.setAttribute = applyStyle;
    return element;
  };
  return new Proxy(real, {
    get(target, name) {
      if (name === 'createElement') return createElement;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
}
