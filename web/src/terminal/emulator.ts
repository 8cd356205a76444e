// xterm.js with a shell behind it.
import '@xterm/xterm/css/xterm.css';
import { FitAddon } from '@xterm/addon-fit';
import { type ITheme, Terminal } from '@xterm/xterm';
import { call, type Line, type Note } from './socket';
import { openIn } from './styles';

export interface State {
  phase: 'connecting' | 'open' | 'ended';
  paused: boolean;
  exit: number | null; // how the shell ended
  trouble: string; // what the server said is wrong
  selected: boolean;
}

export const begun: State = { phase: 'connecting', paused: false, exit: null, trouble: '', selected: false };

const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;
const bright = [
  'brightBlack',
  'brightRed',
  'brightGreen',
  'brightYellow',
  'brightBlue',
  'brightMagenta',
  'brightCyan',
  'brightWhite',
] as const;

/** The colours of the page's theme: those of the tokens, and those of commands' output. */
function colours(near: HTMLElement): ITheme {
  const probe = document.createElement('span');
  near.append(probe);
  const of = (value: string) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const theme: ITheme = {
    background: of('var(--color-sunken)'),
    foreground: of('var(--color-ink)'),
    cursor: of('var(--color-accent-text)'),
    cursorAccent: of('var(--color-sunken)'),
    selectionBackground: of('var(--color-selection)'),
    scrollbarSliderBackground: of('var(--color-line-strong)'),
    scrollbarSliderHoverBackground: of('var(--color-ink-faint)'),
    scrollbarSliderActiveBackground: of('var(--color-ink-faint)'),
  };
  const black = [of('light-dark(var(--color-ink), var(--color-raised))'), of('var(--color-ink-faint)')];
  const white = [
    of('light-dark(var(--color-line), var(--color-ink-soft))'),
    of('light-dark(var(--color-surface), var(--color-ink))'),
  ];
  probe.style.color = '';
  for (const [i, name] of names.entries()) {
    probe.className = `ansi-${i}`;
    theme[name] = getComputedStyle(probe).color;
    probe.className = `ansi-${i + 8}`;
    const other = bright[i];
    if (other) theme[other] = getComputedStyle(probe).color;
  }
  probe.remove();
  [theme.black, theme.brightBlack] = black;
  [theme.white, theme.brightWhite] = white;
  return theme;
}

// What a program that was cut off may have left behind: the other screen, colours, mouse
// reports, bracketed paste, a hidden cursor.
const restore = '\x1b[?1049l\x1b[!p\x1b[?1000;1002;1003;1006;2004l\x1b[?25h\r\n';

interface Options {
  sandbox: string;
  dir: string;
  label: string; // of where one types
  reader: boolean;
  tell: (change: Partial<State>) => void;
  leave: () => void; // the focus is to go elsewhere
  copied: (text: string) => void; // asked for by a key
}

export class Emulator {
  readonly #terminal: Terminal;
  readonly #fit = new FitAddon();
  readonly #options: Options;
  readonly #host: HTMLElement;
  readonly #watch: ResizeObserver;
  readonly #dark = matchMedia('(prefers-color-scheme: dark)');
  readonly #themed: MutationObserver;
  #line: Line | null = null;
  #warned = false; // of something that did not end the terminal
  #frame = 0;

  constructor(host: HTMLElement, options: Options) {
    this.#host = host;
    this.#options = options;
    const style = getComputedStyle(document.documentElement);
    const terminal = new Terminal({
      fontFamily: style.getPropertyValue('--font-mono').trim(),
      fontSize: 13,
      lineHeight: 1.2,
      cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
      minimumContrastRatio: 4.5,
      scrollback: 5000,
      screenReaderMode: options.reader,
      theme: colours(host),
      // Addresses that programs print are text: nothing is opened.
      linkHandler: { activate: () => {} },
    });
    this.#terminal = terminal;
    terminal.loadAddon(this.#fit);
    openIn(host, terminal);
    terminal.textarea?.setAttribute('aria-label', options.label);
    terminal.attachCustomKeyEventHandler((event) => this.#key(event));
    terminal.onData((text) => this.#line?.type(new TextEncoder().encode(text)));
    terminal.onBinary((text) => this.#line?.type(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    terminal.onResize(({ rows, cols }) => this.#line?.resize(rows, cols));
    terminal.onSelectionChange(() => options.tell({ selected: terminal.hasSelection() }));
    this.#watch = new ResizeObserver(() => {
      cancelAnimationFrame(this.#frame);
      this.#frame = requestAnimationFrame(() => this.#resize());
    });
    this.#watch.observe(host);
    this.#dark.addEventListener('change', this.#recolour);
    this.#themed = new MutationObserver(this.#recolour);
    this.#themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    this.#resize();
  }

  /** Starts a shell, in place of one that ended. */
  connect(): void {
    const { sandbox, dir, tell } = this.#options;
    if (this.#line !== null) this.#terminal.write(restore);
    this.#line?.close();
    tell({ ...begun, selected: this.#terminal.hasSelection() });
    const { rows, cols } = this.#terminal;
    this.#line = call(
      { sandbox, dir, rows, cols },
      {
        onOutput: (bytes, done) => {
          this.#terminal.write(bytes, done);
          if (this.#warned) tell({ trouble: '' });
          this.#warned = false;
        },
        onNote: (note) => this.#note(note),
        onClose: () => tell({ phase: 'ended', paused: false }),
      },
    );
  }

  focus(): void {
    this.#terminal.focus();
  }

  selection(): string {
    return this.#terminal.getSelection();
  }

  /** Shows the screen's text to screen readers, too. */
  setReader(on: boolean): void {
    this.#terminal.options.screenReaderMode = on;
  }

  dispose(): void {
    this.#line?.close();
    cancelAnimationFrame(this.#frame);
    this.#watch.disconnect();
    this.#themed.disconnect();
    this.#dark.removeEventListener('change', this.#recolour);
    this.#terminal.dispose();
  }

  #note(note: Note): void {
    const { tell } = this.#options;
    switch (note.type) {
      case 'ready':
        tell({ phase: 'open' });
        // The size may have changed since it was asked for.
        this.#line?.resize(this.#terminal.rows, this.#terminal.cols);
        break;
      case 'paused':
      case 'resumed':
        tell({ paused: note.type === 'paused', trouble: '' });
        break;
      case 'exit':
        tell({ exit: note.code });
        break;
      case 'error':
        this.#warned = !note.fatal;
        tell({ trouble: note.detail, ...(note.code === 'sandbox_paused' && { paused: true }) });
    }
  }

  /** Keys that are not the shell's; returns whether it gets this one. */
  #key(event: KeyboardEvent): boolean {
    if (!event.ctrlKey || !event.shiftKey || event.altKey || event.metaKey) return true;
    const down = event.type === 'keydown';
    switch (event.key.toLowerCase()) {
      case 'c':
        if (down && this.#terminal.hasSelection()) this.#options.copied(this.selection());
        event.preventDefault();
        return false;
      case 'v':
        return false; // the browser pastes
      case 'l':
        if (down) this.#options.leave();
        event.preventDefault();
        return false;
    }
    return true;
  }

  #resize(): void {
    if (this.#host.clientWidth === 0 || this.#host.clientHeight === 0) return; // not shown
    const size = this.#fit.proposeDimensions();
    if (!size || !Number.isFinite(size.rows) || !Number.isFinite(size.cols)) return;
    this.#terminal.resize(Math.min(Math.max(size.cols, 2), 1000), Math.min(Math.max(size.rows, 1), 500));
  }

  #recolour = () => {
    this.#terminal.options.theme = colours(this.#host);
  };
}
