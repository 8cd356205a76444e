// Previews of what listens in a sandbox: what runs there is not trusted.
import { api, ask, type Schema } from '../../api/client';

type Exposed = Schema['ExposedUrl'];

/** What of the exposed addresses a browser can show: not the agent's own interface. */
export function previews(exposed: readonly Exposed[] | null): Exposed[] {
  return (exposed ?? []).filter((each) => each.name !== 'AGENT_SERVER');
}

/** The address of a link, null if it is none that a page of the web has. */
export function webAddress(link: string): string | null {
  try {
    const to = new URL(link);
    return to.protocol === 'http:' || to.protocol === 'https:' ? to.href : null;
  } catch {
    return null;
  }
}

/**
 * Opens a preview beside this page, which it cannot reach. It returns the link where
 * the browser opens no windows. To be called at a click.
 */
export async function openPreview(sandboxId: string, port: number): Promise<string | null> {
  const beside = window.open('about:blank', '_blank');
  if (beside) beside.opener = null;
  try {
    const { url } = await ask(
      api.POST('/api/v1/sandboxes/{sandbox_id}/ports/{port}/ticket', {
        params: { path: { sandbox_id: sandboxId, port } },
      }),
    );
    const address = webAddress(url);
    if (address === null) throw new Error('no address of a page');
    if (!beside) return address;
    beside.location.replace(address);
    return null;
  } catch (error) {
    beside?.close();
    throw error;
  }
}
