// Images that are pasted or dropped, as the data URLs that messages carry.

export interface Attached {
  name: string;
  url: string;
}

const types = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
export const largest = 5 << 20;

/** Whether a message can carry the file itself. */
export function attachable(file: File): boolean {
  return types.includes(file.type) && file.size <= largest;
}

export type AttachProblem = 'type' | 'size';

export async function attach(files: Iterable<File>): Promise<{ images: Attached[]; problem: AttachProblem | null }> {
  const images: Attached[] = [];
  let problem: AttachProblem | null = null;
  for (const file of files) {
    if (!types.includes(file.type)) problem = 'type';
    else if (file.size > largest) problem = 'size';
    else images.push({ name: file.name, url: await dataUrl(file) });
  }
  return { images, problem };
}

function dataUrl(file: File): Promise<string> {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}
