export interface Column {
  parts: number[]; // from the bottom up
  title: string;
}

interface Props {
  label: string;
  columns: Column[];
  colours: readonly string[]; // a class for each part
  end: number; // of the axis
  top: string; // what the axis ends with
  from: string; // what the first and the last column are
  to: string;
}

const height = 100;
const fewest = 12; // so that a few columns are not as wide as the page

/** Columns beside each other. It is a picture: a table has to say the same. */
export function Columns({ label, columns, colours, end, top, from, to }: Props) {
  return (
    <figure>
      <figcaption className="mb-1 flex items-baseline justify-between gap-3 text-[13px]">
        <span className="font-medium">{label}</span>
        <span className="text-xs text-ink-soft tabular-nums">{top}</span>
      </figcaption>
      <svg
        role="img"
        aria-label={label}
        viewBox={`0 0 ${Math.max(columns.length, fewest)} ${height}`}
        preserveAspectRatio="none"
        className="block h-28 w-full border-t border-b border-t-line border-b-line-strong"
      >
        {columns.map((column, at) => (
          <g key={at}>
            <title>{column.title}</title>
            {/* What is above the column shows its title, too. */}
            <rect x={at} y={0} width={1} height={height} className="fill-transparent hover:fill-hover" />
            {stack(column.parts, end).map(({ y, size }, i) => (
              <rect
                key={i}
                x={at + 0.1}
                y={y}
                width={0.8}
                height={size}
                className={`pointer-events-none ${colours[i]}`}
              />
            ))}
          </g>
        ))}
      </svg>
      <p className="mt-0.5 flex justify-between gap-3 text-xs text-ink-soft tabular-nums">
        <span>{from}</span>
        <span>{to}</span>
      </p>
    </figure>
  );
}

function stack(parts: number[], end: number): { y: number; size: number }[] {
  let y = height;
  return parts.map((part) => {
    const size = Math.min(y, Math.max(0, (part / end) * height));
    y -= size;
    return { y, size };
  });
}

/** What the colours of a chart mean. */
export function Legend({ entries }: { entries: { label: string; colour: string }[] }) {
  return (
    <ul className="mt-1 flex flex-wrap gap-x-4 gap-y-0.5 text-xs text-ink-soft">
      {entries.map((each) => (
        <li key={each.label} className="flex items-center gap-1.5">
          <span aria-hidden className={`size-2.5 rounded-xs ${each.colour}`} />
          {each.label}
        </li>
      ))}
    </ul>
  );
}
