import { strict as assert } from 'node:assert';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { accessible, api, begin, message, status, step, timeline, url } from '../harness.mjs';
import { toolServer } from '../toolserver.mjs';

await step('a call of an MCP server is shown with what it said', async (go) => {
  const tools = await toolServer('right-token');
  const servers = { weather: { url: tools.address, headers: { Authorization: 'Bearer right-token' } } };
  await api('POST', '/api/v1/settings', { agent_settings_diff: { mcp_config: servers } });
  try {
    const page = await go();
    await begin(page, 'tool: weather_report {"city": "Turin"}\nfinish: asked');
    await timeline(page).getByText('asked', { exact: true }).waitFor();
    await timeline(page)
      .getByRole('button', { name: /weather_report.*Turin/ })
      .click();
    await timeline(page).getByText('Sunny in Turin.').waitFor();
    assert.ok(!(await page.locator('body').innerText()).includes('right-token'));
    await accessible(page, 'a call of an MCP server');
  } finally {
    await api('POST', '/api/v1/settings', { agent_settings_diff: { mcp_config: {} } });
    tools.close();
  }
});

/** A directory of this machine with a guard, a skill that runs something, and a plugin. */
function project() {
  const dir = mkdtempSync(join(tmpdir(), 'project-'));
  const hooks = (command) =>
    JSON.stringify({ hooks: { PreToolUse: [{ matcher: 'terminal', hooks: [{ command, timeout: 10 }] }] } });
  const files = {
    '.openhands/hooks.json': hooks('sh .openhands/guard.sh'),
    '.openhands/guard.sh': 'case $(cat) in *forbidden*) echo "The guard <b>says</b> no." >&2; exit 2 ;; esac\n',
    '.agents/skills/report/SKILL.md':
      '---\nname: report\ndescription: Writes the report.\n---\nToday is !`date +%F`.\n',
    'house/.plugin/plugin.json': '{"name": "house"}',
    'house/hooks/hooks.json': hooks('true the-plugin'),
    '.parley-proof-webui': 'a-nonce-of-this-test',
  };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  return dir;
}

/** Starts a conversation over the API and returns it. */
async function start(body) {
  const { id } = await api('POST', '/api/v1/app-conversations', body);
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    const [task] = await api('GET', `/api/v1/app-conversations/start-tasks?ids=${id}`);
    assert.notEqual(task.status, 'ERROR', task.detail);
    if (task.status === 'READY') return api('GET', `/api/v1/app-conversations/${task.app_conversation_id}`);
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('it does not start');
}

await step('what a directory or a plugin wants to run waits for trust', async (go) => {
  const dir = project();
  try {
    const proof = { host_dir: dir, proof: '.parley-proof-webui', nonce: 'a-nonce-of-this-test' };
    const first = await start({ workspace: proof });
    const page = await go();
    await page.goto(`${url}/#/c/${first.id}`);
    const question = page.getByRole('region', { name: 'Do you trust this?' });
    await question.getByText('sh .openhands/guard.sh').waitFor();
    await question.getByText('date +%F').waitFor();
    await accessible(page, 'a question of trust');
    await message(page, 'run: echo forbidden-$((1+1))\nfinish: nobody guarded');
    await timeline(page).getByText('nobody guarded', { exact: true }).waitFor();
    await timeline(page)
      .getByRole('button', { name: /^Command echo forbidden/ })
      .click();
    await timeline(page).getByText('forbidden-2').waitFor();
    await question.getByRole('button', { name: 'Trust and run' }).click();
    await question.waitFor({ state: 'detached' });
    await message(page, 'run: echo forbidden-$((2+2))\nfinish: guarded');
    await timeline(page).getByText('guarded', { exact: true }).waitFor();
    await status(page, 'Finished.');
    await timeline(page)
      .getByText(/Hook: sh .openhands\/guard.sh.*held back.*The guard <b>says<\/b> no\./)
      .waitFor();
    assert.equal(await timeline(page).getByText('forbidden-4').count(), 0);

    const second = await start({
      sandbox_id: first.sandbox_id,
      plugins: [{ source: '/workspace/project/house' }],
    });
    await page.goto(`${url}/#/c/${second.id}`);
    await question.getByText('true the-plugin').waitFor();
    await question.getByRole('button', { name: 'Later' }).click();
    await question.waitFor({ state: 'detached' });
    await page.reload();
    await question.getByRole('button', { name: 'Never run it' }).click();
    await question.waitFor({ state: 'detached' });
    await page.reload();
    await status(page, 'Ready');
    assert.equal(await question.count(), 0);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
