import { useEffect, useState } from 'react';

const calm = 300; // ms without a change

/** A value that is being typed, once it rests: what is asked elsewhere is not asked for every letter. */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), calm);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
