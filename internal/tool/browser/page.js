// What runs inside pages, in a world of its own: pages do not see it, and what
// they change in their prototypes does not reach here. The element of a form named
// "childNodes" does hide the property of that name, so that accessors are called
// by their prototypes.
const lib = globalThis.agentPage ??= (() => {
  const maxNodes = 200000, maxDepth = 800, maxTime = 8000; // ms of one walk
  const maxExact = 20000; // elements of a page of which the accessibility tree is made
  const getter = (proto, name) => {
    const found = Object.getOwnPropertyDescriptor(proto, name);
    return (e) => (found ? found.get.call(e) : undefined);
  };
  const method = (proto, name) => (e, ...args) => proto[name].apply(e, args);
  const childNodes = getter(Node.prototype, 'childNodes');
  const nodeType = getter(Node.prototype, 'nodeType');
  const textOf = getter(Node.prototype, 'textContent');
  const parentNode = getter(Node.prototype, 'parentNode');
  const rootOf = method(Node.prototype, 'getRootNode');
  const holds = method(Node.prototype, 'contains');
  const isConnected = getter(Node.prototype, 'isConnected');
  const localName = getter(Element.prototype, 'localName');
  const shadowRoot = getter(Element.prototype, 'shadowRoot');
  const computedRole = getter(Element.prototype, 'computedRole');
  const computedName = getter(Element.prototype, 'computedName');
  const rect = method(Element.prototype, 'getBoundingClientRect');
  const rects = method(Element.prototype, 'getClientRects');
  const attr = method(Element.prototype, 'getAttribute');
  const hasAttr = method(Element.prototype, 'hasAttribute');
  const closest = method(Element.prototype, 'closest');
  const innerText = getter(HTMLElement.prototype, 'innerText');

  const ids = new WeakMap(); // element -> number
  const elements = new Map(); // number -> WeakRef of the element
  const listening = new WeakSet(); // elements that listen to clicks
  const closedRoots = new WeakMap(); // host -> shadow root that it does not show

  const squeeze = (s) => s.replace(/\s+/g, ' ').trim();
  const cut = (s, n) => (s.length > n ? s.slice(0, n - 3) + '...' : s);
  const quote = (s) => JSON.stringify(s);

  // children are those of the tree as it is shown.
  function children(e) {
    const shadow = nodeType(e) === 1 && (shadowRoot(e) ?? closedRoots.get(e));
    if (shadow) return childNodes(shadow);
    if (nodeType(e) === 1 && localName(e) === 'slot') {
      const assigned = e.assignedNodes();
      if (assigned.length) return assigned;
    }
    return childNodes(e);
  }

  const neverShown = new Set(['script', 'style', 'noscript', 'template', 'head', 'meta', 'link', 'title', 'object', 'embed', 'iframe', 'frame']);
  const isShut = (e, name) => name !== 'summary' && parentNode(e) instanceof HTMLDetailsElement && !hasAttr(parentNode(e), 'open');
  const isInline = (display) => display.startsWith('inline') || display === 'contents' || display === 'table-cell' || display.startsWith('ruby');

  function get(id) {
    const e = elements.get(id)?.deref();
    return e && isConnected(e) ? e : null;
  }

  function idOf(e, counter) {
    let id = ids.get(e);
    if (id === undefined) {
      id = counter.next++;
      ids.set(e, id);
      elements.set(id, new WeakRef(e));
    }
    return id;
  }

  const roles = new Set(['button', 'checkbox', 'combobox', 'gridcell', 'link', 'listbox', 'menuitem', 'menuitemcheckbox', 'menuitemradio',
    'option', 'radio', 'scrollbar', 'searchbox', 'slider', 'spinbutton', 'switch', 'tab', 'textbox', 'treeitem']);

  // role is what can be done with an element; '' = nothing.
  function interactive(e, name, style, parentPoints) {
    switch (name) {
      case 'a': case 'area':
        if (hasAttr(e, 'href')) return 'link';
        break;
      case 'button': case 'select': case 'textarea': case 'summary':
        return name;
      case 'input':
        return e.type === 'hidden' ? '' : 'input';
      case 'audio': case 'video':
        if (hasAttr(e, 'controls')) return name;
        break;
    }
    const role = attr(e, 'role');
    if (role && roles.has(role)) return role;
    const editable = attr(e, 'contenteditable');
    if (editable !== null && editable !== 'false') return 'textbox';
    const tabindex = attr(e, 'tabindex');
    if ((tabindex !== null && parseInt(tabindex, 10) >= 0) || hasAttr(e, 'onclick') || hasAttr(e, 'onmousedown')) return 'clickable';
    if (style.cursor === 'pointer' && !parentPoints) return 'clickable';
    return listening.has(e) && isSmall(e) ? 'clickable' : '';
  }

  // isSmall tells an element that is one thing to click, not the container that
  // listens for many.
  const isSmall = (e) => textOf(e).length < 400 && !e.querySelector('a, button, input, select, textarea');

  // mark tells which elements listen to clicks, and through them of closed shadow
  // roots: scripts cannot find out.
  function mark(e) {
    if (!(e instanceof Element) || e === document.body || e === document.documentElement) return;
    listening.add(e);
    const root = rootOf(e);
    if (root instanceof ShadowRoot && !shadowRoot(root.host)) closedRoots.set(root.host, root);
  }

  const isHuge = () => document.getElementsByTagName('*').length > maxExact;

  const inputRoles = { checkbox: 'checkbox', radio: 'radio', range: 'slider', number: 'spinbutton', search: 'searchbox',
    submit: 'button', button: 'button', reset: 'button', image: 'button', file: 'file input', color: 'color input' };

  function roleOf(e, kind, exact = true) {
    const role = exact ? computedRole(e) : attr(e, 'role');
    if (localName(e) === 'input') return inputRoles[e.type] ?? (role && role !== 'generic' ? role : 'textbox');
    if (role && role !== 'generic' && role !== 'none') return role;
    return { a: 'link', select: 'combobox', textarea: 'textbox', summary: 'button' }[kind] ?? kind;
  }

  function nameOf(e, exact = true) {
    if (localName(e) === 'input' && e.type === 'file') exact = false; // its name says which file it holds
    const candidates = [() => (exact ? computedName(e) : ''), () => attr(e, 'aria-label'), () => labelOf(e),
      () => (textOf(e).length < 4000 && localName(e) !== 'select' ? innerText(e) ?? textOf(e) : ''), () => attr(e, 'title'), () => attr(e, 'placeholder'), () => attr(e, 'alt')];
    for (const candidate of candidates) {
      const name = squeeze(candidate() ?? '');
      if (name) return name;
    }
    return '';
  }

  const labelOf = (e) => (e.labels instanceof NodeList ? Array.from(e.labels, (l) => textOf(l)).join(' ') : '');

  function address(href) {
    let url;
    try {
      url = new URL(href, document.baseURI);
    } catch {
      return cut(href, 60);
    }
    if (url.protocol === 'javascript:' || url.protocol === 'data:') return url.protocol;
    return cut(url.origin === location.origin && url.origin !== 'null' ? url.pathname + url.search + url.hash : url.href, 150);
  }

  const stateAttributes = { 'aria-expanded': 'expanded', 'aria-checked': 'checked', 'aria-selected': 'selected', 'aria-pressed': 'pressed',
    'aria-current': 'current', 'aria-invalid': 'invalid' };

  // states are what a model has to know of an element beside role and name.
  function states(e, tag, name) {
    const list = [];
    if (tag === 'a' || tag === 'area') list.push('-> ' + address(attr(e, 'href') ?? ''));
    if (tag === 'input') {
      if (['checkbox', 'radio'].includes(e.type)) list.push(e.checked ? 'checked' : 'not checked');
      else if (e.type === 'password') list.push('password' + (e.value ? ', filled in' : ''));
      else if (e.type === 'file') list.push(e.files?.length ? 'holds ' + cut(Array.from(e.files, (f) => f.name).join(', '), 100) : 'no file');
      else if (!['submit', 'button', 'reset', 'image'].includes(e.type)) {
        if (!['text', 'search', 'number', 'range', 'color'].includes(e.type)) list.push(e.type);
        if (e.value) list.push('value=' + quote(cut(e.value, 100)));
      }
    }
    if (tag === 'textarea' && e.value) list.push('value=' + quote(cut(squeeze(e.value), 100)));
    if (tag === 'select') list.push(...choices(e));
    const hint = squeeze(attr(e, 'placeholder') ?? '');
    if (hint && hint !== name) list.push('placeholder=' + quote(cut(hint, 60)));
    if (e.required === true) list.push('required');
    if (e.readOnly === true) list.push('read-only');
    if (e.disabled === true || attr(e, 'aria-disabled') === 'true') list.push('disabled');
    if (tag === 'summary') list.push(hasAttr(parentNode(e), 'open') ? 'expanded' : 'collapsed');
    for (const [attribute, word] of Object.entries(stateAttributes)) {
      const value = attr(e, attribute);
      if (value === 'true' || value === 'page') list.push(word);
      else if (value === 'false' && word !== 'current' && word !== 'invalid') list.push('not ' + word);
    }
    return list;
  }

  function choices(e) {
    const options = Array.from(e.options);
    const shown = options.slice(0, 25).map((o) => (o.selected ? '*' : '') + quote(cut(squeeze(o.label), 60)));
    if (options.length > shown.length) shown.push(`... ${options.length - shown.length} more`);
    return ['options (* = selected): ' + shown.join(' ')];
  }

  // outline lists what a page shows in the order of its tree: text, and elements
  // with the numbers by which they can be named. What does not fit into
  // budget characters is left out, what is in view last.
  function outline(arg) {
    const items = [], exact = !isHuge(), end = performance.now() + maxTime;
    let buffer = '', at = null, before = '', seen = 0, partial = false;
    const push = (e, item) => {
      items.push({ bottom: rect(e).bottom, before, ...item });
      before = '';
    };
    const flush = () => {
      const text = squeeze(buffer.replace(/(\s*\|\s*)+$/, ''));
      if (text && at) push(at, { cost: text.length, text: () => cut(text, arg.text) });
      buffer = '';
      at = null;
    };
    const visit = (node, parent, depth, quiet, points) => {
      if (seen++ > maxNodes || depth > maxDepth || (seen % 256 === 0 && performance.now() > end)) {
        partial = true;
        seen = depth > maxDepth ? seen : maxNodes + 1;
        return;
      }
      if (nodeType(node) === 3) {
        if (!quiet && parent && !isShut(node)) {
          buffer += node.data.length > 4000 ? node.data.slice(0, 4000) : node.data;
          at ??= parent;
        }
        return;
      }
      if (nodeType(node) !== 1) return;
      const name = localName(node);
      if (neverShown.has(name) || isShut(node, name)) return;
      if (name === 'br') {
        buffer += ' ';
        return;
      }
      const style = getComputedStyle(node);
      if (style.display === 'none') return;
      const visible = style.visibility === 'visible';
      const block = !isInline(style.display);
      const heading = /^h[1-6]$/.test(name) ? +name[1] : attr(node, 'role') === 'heading' ? +(attr(node, 'aria-level') ?? 2) : 0;
      if (block) flush();
      if (style.display === 'table-cell' && squeeze(buffer)) buffer += ' | ';
      if (heading) before = '#'.repeat(Math.min(Math.max(heading, 1), 6)) + ' ';
      const kind = visible ? interactive(node, name, style, points) : '';
      let hush = quiet;
      if (kind && hasSize(node)) {
        flush();
        const length = textOf(node).length;
        const fits = kind !== 'clickable' || length <= 2 * arg.text; // else what is in it is listed
        push(node, { target: node, cost: Math.min(length, arg.text) + 60, text: () => line(node, kind, fits, exact, arg.text) });
        hush = quiet || (fits && (kind !== 'clickable' || length > 0));
      } else if (name === 'img' && !quiet && visible && squeeze(attr(node, 'alt') ?? '')) {
        buffer += ` [image: ${cut(squeeze(attr(node, 'alt')), 100)}] `;
        at ??= node;
      }
      if (name === 'svg' || name === 'canvas' || name === 'select' || name === 'textarea') return;
      if (name === 'label' && node.control && hasSize(node.control)) hush = true; // the field's name
      const inner = points || style.cursor === 'pointer';
      for (const child of children(node)) visit(child, visible ? node : null, depth + 1, hush, inner);
      if (block) flush();
      if (heading) before = '';
    };
    const top = document.body ?? document.documentElement;
    if (top) visit(top, null, 0, false, false);
    flush();
    return chosen(items, arg, partial);
  }

  // line describes an element.
  function line(e, kind, named, exact, most) {
    const name = nameOf(e, exact);
    return [roleOf(e, kind, exact), named && name ? quote(cut(name, most)) : '', ...states(e, localName(e), name)].filter(Boolean).join(' ');
  }

  function hasSize(e) {
    const box = rect(e);
    return box.width >= 1 && box.height >= 1;
  }

  // chosen cuts a list of items to the budget, around what is in view, and numbers
  // the elements that are left.
  function chosen(items, arg, partial) {
    const cost = (item) => item.cost + 10;
    let total = items.reduce((sum, item) => sum + cost(item), 0), first = 0, last = items.length;
    if (total > arg.budget) {
      const inView = items.findIndex((item) => item.bottom > 0);
      first = last = inView < 0 ? Math.max(0, items.length - 1) : inView;
      total = 0;
      while (last < items.length && total + cost(items[last]) <= arg.budget) total += cost(items[last++]);
      while (first > 0 && total + cost(items[first - 1]) <= arg.budget) total += cost(items[--first]);
    }
    const counter = { next: arg.next };
    const lines = items.slice(first, last).map((item) => item.before + (item.target ? `[${idOf(item.target, counter)}] ` : '') + item.text());
    return { lines, above: first, below: items.length - last, next: counter.next, partial, ...place() };
  }

  function place() {
    const e = document.scrollingElement ?? document.documentElement;
    return { scrollY: Math.round(scrollY), height: e ? e.scrollHeight : 0, viewHeight: innerHeight, viewWidth: innerWidth };
  }

  const about = () => ({
    url: location.href, title: document.title, type: document.contentType, ready: document.readyState,
    status: performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0, visible: document.visibilityState === 'visible', huge: isHuge(),
  });

  // probe says what an element is; null if it is gone.
  function probe(arg) {
    const e = get(arg.id);
    if (!e) return null;
    const tag = localName(e), exact = !isHuge(), label = nameOf(e, exact), link = closest(e, 'a[href]');
    return {
      text: [roleOf(e, interactive(e, tag, getComputedStyle(e), false) || tag, exact), label ? quote(cut(label, 100)) : ''].filter(Boolean).join(' '),
      tag, type: tag === 'input' ? e.type : '', href: link ? link.href : '', disabled: e.disabled === true,
      readOnly: e.readOnly === true, editable: e.isContentEditable === true, multiple: e.multiple === true,
    };
  }

  // aim finds a point of an element that a click reaches, relative to the element's
  // first box, or what covers it.
  function aim(arg) {
    const e = get(arg.id);
    if (!e) return null;
    const boxes = Array.from(rects(e)).filter((r) => r.width >= 1 && r.height >= 1);
    let cover = '';
    for (const box of boxes.slice(0, 20)) {
      for (const [fx, fy] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.2], [0.5, 0.8]]) {
        const x = box.left + box.width * fx, y = box.top + box.height * fy;
        if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
        const hit = rootOf(e).elementFromPoint(x, y);
        if (hit && reaches(hit, e)) return { x: x - boxes[0].left, y: y - boxes[0].top };
        if (hit) cover ||= described(hit);
      }
    }
    return { cover, hidden: boxes.length === 0 };
  }

  function reaches(hit, e) {
    if (hit === e || holds(e, hit) || holds(hit, e)) return true;
    if (closest(hit, 'label')?.control === e) return true;
    return e.labels instanceof NodeList && Array.from(e.labels).some((l) => l === hit || holds(l, hit));
  }

  function described(e) {
    const id = attr(e, 'id'), name = attr(e, 'class');
    let text = '<' + localName(e) + (id ? ` id=${quote(cut(id, 40))}` : '') + (name ? ` class=${quote(cut(squeeze(name), 60))}` : '') + '>';
    const words = textOf(e).length < 4000 ? squeeze(innerText(e) ?? '') : '';
    if (words) text += ' ' + quote(cut(words, 60));
    return text;
  }

  // ready focuses a field and selects all that is in it.
  function ready(arg) {
    const e = get(arg.id);
    if (!e) return null;
    e.focus();
    if (e.select instanceof Function && e.value !== undefined) e.select();
    else if (e.isContentEditable) getSelection().selectAllChildren(e);
    return { focused: rootOf(e).activeElement === e || holds(e, rootOf(e).activeElement) };
  }

  function fire(e) {
    e.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    e.dispatchEvent(new Event('change', { bubbles: true }));
  }

  // set gives a field that is not typed into its value, and says what it holds then.
  function set(arg) {
    const e = get(arg.id);
    if (!e) return null;
    e.focus();
    e.value = arg.text;
    fire(e);
    return { value: e.value };
  }

  const held = (arg) => {
    const e = get(arg.id);
    return e && { value: e.isContentEditable ? innerText(e) : String(e.value ?? '') };
  };

  // choose selects an option by its label or value.
  function choose(arg) {
    const e = get(arg.id);
    if (!e) return null;
    const options = Array.from(e.options), want = squeeze(arg.text), low = want.toLowerCase();
    const tests = [(o) => squeeze(o.label) === want || o.value === want, (o) => squeeze(o.label).toLowerCase() === low,
      (o) => squeeze(o.label).toLowerCase().includes(low)];
    for (const test of tests) {
      const found = options.filter(test);
      if (found.length === 0 || (found.length > 1 && test === tests[2])) continue;
      if (found[0].disabled) return { disabled: true, options: choices(e)[0] };
      e.focus();
      if (!e.multiple) e.value = found[0].value;
      found[0].selected = true;
      fire(e);
      return { chosen: squeeze(found[0].label) };
    }
    return { options: choices(e)[0] };
  }

  // scroll moves the page, or the largest part that scrolls by itself.
  function scroll(arg) {
    const target = scroller();
    const step = Math.max(50, target.clientHeight * 0.8) * (arg.direction === 'up' ? -1 : 1);
    const before = target.scrollTop;
    target.scrollBy({ top: step, behavior: 'instant' });
    return { before: Math.round(before), after: Math.round(target.scrollTop), end: Math.max(0, target.scrollHeight - target.clientHeight),
      part: target === document.scrollingElement ? '' : described(target).slice(0, 100) };
  }

  function scroller() {
    const page = document.scrollingElement ?? document.documentElement;
    if (page.scrollHeight > page.clientHeight + 1 && getComputedStyle(page).overflowY !== 'hidden') return page;
    let best = page, area = 0, seen = 0;
    for (const e of document.querySelectorAll('*')) {
      if (seen++ > 20000) break;
      if (e.scrollHeight <= e.clientHeight + 1 || e.clientHeight * e.clientWidth <= area) continue;
      if (/auto|scroll/.test(getComputedStyle(e).overflowY)) {
        best = e;
        area = e.clientHeight * e.clientWidth;
      }
    }
    return best;
  }

  // quiet waits until a page stops changing.
  function quiet(arg) {
    return new Promise((resolve) => {
      let timer;
      const done = () => {
        watcher.disconnect();
        clearTimeout(timer);
        clearTimeout(limit);
        resolve(null);
      };
      const watcher = new MutationObserver(() => {
        clearTimeout(timer);
        timer = setTimeout(done, arg.still);
      });
      const limit = setTimeout(done, arg.limit);
      timer = setTimeout(done, arg.still);
      watcher.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
    });
  }

  const pairs = (s) => Object.keys(s).map((name) => ({ name, value: String(s.getItem(name)) }));

  function stored() {
    try {
      return { origin: location.origin, localStorage: pairs(localStorage), sessionStorage: pairs(sessionStorage) };
    } catch {
      return null; // a page without an origin has no storage
    }
  }

  function store(arg) {
    for (const { name, value } of arg.localStorage ?? []) localStorage.setItem(name, value);
    for (const { name, value } of arg.sessionStorage ?? []) sessionStorage.setItem(name, value);
    return null;
  }

  // content is the page as Markdown.
  function content(arg) {
    const writer = newWriter(arg.max);
    const end = performance.now() + maxTime;
    let seen = 0, partial = false;
    const all = (node, depth, pre) => {
      for (const child of children(node)) visit(child, depth + 1, pre);
    };
    const cells = (row, depth) => Array.from(childNodes(row)).filter((c) => nodeType(c) === 1 && /^t[dh]$/.test(localName(c)))
      .map((c) => writer.apart(() => all(c, depth + 1, false)));
    const table = (node, depth) => {
      const rows = Array.from(node.rows);
      const list = rows.map((row) => cells(row, depth));
      writer.gap();
      list.forEach((row, i) => {
        if (row.length === 0) return;
        writer.line('| ' + row.map((c) => c.replaceAll('|', '\\|')).join(' | ') + ' |');
        if (i === 0) writer.line('|' + ' --- |'.repeat(row.length));
      });
      writer.gap();
    };
    const isData = (node) => node instanceof HTMLTableElement && !node.querySelector('table, ul, ol, pre, h1, h2, h3, h4, form') &&
      node.rows.length > 1 && node.rows[0].cells.length > 1;
    const link = (node, depth, pre) => {
      const href = arg.links ? address(attr(node, 'href')) : '';
      if (!href) return all(node, depth, pre);
      const mark = writer.mark();
      writer.inline('[');
      const inside = writer.mark();
      all(node, depth, pre);
      if (writer.mark() === inside) writer.back(mark);
      else writer.inline(`](${href})`);
    };
    const item = (node, depth, pre) => {
      const list = parentNode(node);
      const number = list instanceof HTMLOListElement ? Array.prototype.indexOf.call(list.children, node) + (list.start || 1) + '. ' : '- ';
      writer.nest(number, () => all(node, depth, pre));
    };
    const special = {
      br: () => writer.end(), hr: () => { writer.gap(); writer.line('---'); writer.gap(); },
      pre: (e) => { writer.gap(); writer.raw('```\n' + innerText(e).replace(/\n+$/, '') + '\n```'); writer.gap(); },
      a: (e, depth, pre) => (hasAttr(e, 'href') ? link(e, depth, pre) : all(e, depth, pre)),
      li: item, img: (e) => image(e), blockquote: (e, depth, pre) => { writer.gap(); writer.nest('> ', () => all(e, depth, pre), true); writer.gap(); },
      input: (e) => { if (e.type !== 'hidden' && e.type !== 'password' && e.value) writer.inline(`[${e.value}] `); },
      textarea: (e) => writer.inline(`[${e.value}] `),
      select: (e) => writer.inline(`[${Array.from(e.selectedOptions, (o) => squeeze(o.label)).join(', ')}] `),
      svg: () => {}, canvas: () => {}, video: () => {}, audio: () => {},
    };
    const image = (e) => {
      const alt = squeeze(attr(e, 'alt') ?? ''), src = arg.links ? address(attr(e, 'src') ?? '') : '';
      if (alt || (src && src !== 'data:')) writer.inline(src && src !== 'data:' ? `![${alt}](${src})` : `[image: ${alt}]`);
    };
    const visit = (node, depth, pre) => {
      if (seen++ > maxNodes || depth > maxDepth || writer.full() || (seen % 256 === 0 && performance.now() > end)) {
        partial = true;
        seen = depth > maxDepth ? seen : maxNodes + 1;
        return;
      }
      if (nodeType(node) === 3) return isShut(node) || writer.text(node.data, pre);
      if (nodeType(node) !== 1) return;
      const name = localName(node);
      if (neverShown.has(name) || isShut(node, name)) return;
      const style = getComputedStyle(node);
      if (style.display === 'none' || (style.visibility !== 'visible' && children(node).length === 0)) return;
      if (Object.hasOwn(special, name)) return special[name](node, depth, pre);
      if (isData(node)) return table(node, depth);
      const level = /^h[1-6]$/.test(name) ? +name[1] : 0;
      const block = !isInline(style.display);
      const apart = level || name === 'p' || name === 'table' || ((name === 'ul' || name === 'ol') && localName(parentNode(node)) !== 'li');
      if (apart) writer.gap();
      else if (block) writer.end();
      else if (style.display === 'table-cell') writer.inline(' ');
      if (level) writer.inline('#'.repeat(level) + ' ');
      all(node, depth, pre || style.whiteSpace.startsWith('pre'));
      if (apart) writer.gap();
      else if (block) writer.end();
    };
    const top = document.body ?? document.documentElement;
    if (top) visit(top, 0, false);
    return { text: writer.result(), partial: partial || writer.full(), ...about() };
  }

  // newWriter collects lines of Markdown, at most max characters.
  function newWriter(max) {
    let out = '', line = '', first = null, prefix = '', outside = '', owed = false;
    const put = (text) => {
      if (owed && out) out += (first === null ? prefix : outside).trimEnd() + '\n';
      out += (first ?? prefix) + text + '\n';
      first = null;
      owed = false;
    };
    const w = {
      full: () => out.length + line.length > max,
      mark: () => out.length + ':' + line.length,
      back: (mark) => { line = line.slice(0, +mark.split(':')[1]); },
      text: (s, pre) => {
        if (s.length > max) s = s.slice(0, max);
        if (pre) {
          const lines = s.split('\n');
          lines.forEach((part, i) => { if (i) w.end(); line += part; });
          return;
        }
        s = s.replace(/\s+/g, ' ');
        line += line === '' || line.endsWith(' ') || line.endsWith('[') ? s.trimStart() : s;
      },
      inline: (s) => { line += s; },
      end: () => { if (line.trim() && line.trim() !== '[') put(line.trimEnd()); line = line.trim() === '[' ? line : ''; },
      line: (s) => { w.end(); put(s); },
      raw: (s) => { w.end(); for (const part of s.split('\n')) put(part); },
      gap: () => { w.end(); owed = owed || first === null; },
      nest: (marker, body, every) => {
        w.end();
        const outer = prefix, outerFirst = first, outermost = outside;
        first = (outerFirst ?? outer) + marker;
        outside = outerFirst === null ? outer : outermost;
        prefix = outer + (every ? marker : ' '.repeat(marker.length));
        body();
        w.end();
        if (first !== null) first = outerFirst; // nothing was written
        prefix = outer;
        outside = outermost;
      },
      apart: (body) => {
        const kept = [out, line, first, prefix, owed];
        [out, line, first, prefix, owed] = ['', '', null, '', false];
        body();
        w.end();
        const text = squeeze(out);
        [out, line, first, prefix, owed] = kept;
        return text;
      },
      result: () => { w.end(); return out.replace(/\n{3,}/g, '\n\n').trim(); },
    };
    return w;
  }

  return { outline, about, probe, aim, ready, set, held, choose, scroll, quiet, stored, store, content, mark,
    document: () => document, pick: (arg) => get(arg.id) };
})();
