import { strict as assert } from 'node:assert';
import { accessible, api, begin, step, timeline } from '../harness.mjs';

await step('beside a conversation: cost, network, ports and sub-agents', async (go) => {
  await api('POST', '/api/v1/settings', { agent_settings_diff: { enable_sub_agents: true } });
  const page = await go();
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const task = { prompt: 'finish: looked', description: 'look around' };
  const serve = `echo preview-works > index.html; python3 -m http.server ${port} >/dev/null 2>&1 &`;
  await begin(
    page,
    `run: ${serve}\nrun: curl -sS -m 5 http://10.255.0.1/; true\ntool: task ${JSON.stringify(task)}\nfinish: all given`,
  );
  await timeline(page).getByText('all given', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Actions', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Cost, network' }).click();
  const dialog = page.getByRole('dialog', { name: 'Details' });
  await dialog.getByRole('img', { name: 'Tokens read and written' }).waitFor();
  await dialog.getByText('Every call').click();
  await dialog.getByRole('row').nth(4).waitFor(); // a head, three steps and the end
  assert.equal(await dialog.getByRole('row').count(), 5);
  await accessible(page, 'cost');
  await dialog.getByRole('tab', { name: 'Network' }).click();
  await dialog.getByText('10.255.0.1:80').waitFor();
  await accessible(page, 'network');
  await dialog.getByLabel('Outcome').selectOption('allowed');
  await dialog.getByText('No connection is like that.').waitFor();
  await dialog.getByRole('tab', { name: 'Ports' }).click();
  const [preview] = await Promise.all([
    page.context().waitForEvent('page'),
    dialog.getByRole('button', { name: `Open: Port ${port}` }).click(),
  ]);
  await preview.getByText('preview-works').waitFor();
  assert.equal(await preview.evaluate('window.opener'), null);
  await preview.close();
  await accessible(page, 'ports');
  await page.setViewportSize({ width: 360, height: 740 });
  for (const tab of ['Cost', 'Network', 'Ports', 'Agents']) {
    await dialog.getByRole('tab', { name: tab }).click();
    assert.ok(await dialog.evaluate((each) => each.scrollWidth <= each.clientWidth), `${tab} is too wide`);
  }
  await dialog.getByRole('link', { name: /look around/ }).waitFor();
  await accessible(page, 'sub-agents');
  await dialog.getByRole('link', { name: /look around/ }).click();
  await timeline(page).getByText('looked', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Part of another conversation' }).click();
  await timeline(page).getByText('all given', { exact: true }).waitFor();
  await timeline(page)
    .getByRole('button', { name: /look around/ })
    .click();
  await timeline(page).getByRole('link', { name: 'Conversation of the sub-agent' }).click();
  await timeline(page).getByText('looked', { exact: true }).waitFor();
});
