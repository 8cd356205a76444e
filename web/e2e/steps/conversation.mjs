import { strict as assert } from 'node:assert';
import { accessible, api, begin, message, please, status, step, timeline } from '../harness.mjs';

await step('a conversation: steps, output, streamed text, markdown', async (go) => {
  const page = await go();
  await begin(page, 'run: echo out-$((40+2))\nfinish: the **end**');
  await page.getByRole('button', { name: /^Command echo/ }).click();
  await page.getByText('out-42').waitFor();
  await timeline(page).locator('strong', { hasText: 'end' }).waitFor();
  await message(page, 'tokens 400');
  await page.locator('[aria-busy]').getByText('word-3').waitFor(); // while it is written
  await page.getByText('word-400').waitFor();
  await status(page, 'Finished.');
});

await step('what a model writes loads nothing and says where it leads', async (go) => {
  const page = await go();
  await begin(
    page,
    'say: ![x](http://192.0.2.1/pixel.png) <img src="http://192.0.2.1/p.png"> [bank](http://192.0.2.1/login)',
  );
  await timeline(page)
    .getByRole('link', { name: /bank.*192\.0\.2\.1/ })
    .last()
    .waitFor();
  assert.equal(await timeline(page).locator('img').count(), 0);
});

await step('what needs consent is shown whole, and runs only with it', async (go) => {
  await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: true } });
  try {
    const page = await go();
    await begin(page, 'run: echo first-$((1+1))\nrun: echo second-$((2+2))');
    await page.getByRole('heading', { name: 'The agent wants to run this:' }).waitFor();
    const panel = page.getByRole('region', { name: 'The agent wants to run this:' });
    await panel.getByText('$ echo first-$((1+1))').waitFor();
    await accessible(page, 'confirmation');
    assert.equal(await page.getByText('first-2').count(), 0);
    await panel.getByRole('button', { name: 'Run' }).click();
    await panel.getByText('$ echo second-$((2+2))').waitFor();
    await panel.getByRole('button', { name: 'Refuse' }).click();
    await panel.getByLabel('Why not?').fill('not that one');
    await panel.getByRole('button', { name: 'Refuse' }).click();
    await panel.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /^Command echo first/ }).click();
    await page.getByText('first-2').waitFor();
    await page.getByRole('button', { name: /^Command echo second.*Refused/ }).click();
    await page.getByText('not that one').waitFor();
  } finally {
    await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: false } });
  }
});

await step('a run can be stopped, steered and resumed', async (go) => {
  const page = await go();
  await begin(page, 'slow 60');
  await status(page, 'Command is running');
  await page.getByRole('button', { name: 'Stop' }).click();
  await timeline(page).getByText('Stopped', { exact: true }).waitFor();
  await message(page, 'finish: went on');
  await timeline(page).getByText('went on', { exact: true }).waitFor();
});

await step('after a crash of the server it goes on without a gap and without doubles', async (go) => {
  const page = await go();
  await begin(page, 'run: echo before-$((1+1))\nfinish: one');
  await timeline(page).getByText('one', { exact: true }).waitFor();
  await please('restart');
  await message(page, 'run: echo after-$((2+2))\nfinish: two').catch(() => {});
  await timeline(page).getByText('two', { exact: true }).waitFor();
  for (const text of ['one', 'two'])
    assert.equal(await timeline(page).getByText(text, { exact: true }).count(), 1, text);
  const shown = await timeline(page)
    .getByRole('button', { name: /^Command/ })
    .count();
  await page.reload();
  await timeline(page).getByText('two', { exact: true }).waitFor();
  assert.equal(
    await timeline(page)
      .getByRole('button', { name: /^Command/ })
      .count(),
    shown,
  );
});

await step('a long conversation opens at its end, and older events come while scrolling up', async (go) => {
  // Summaries would replace messages that the scripted model has to read.
  await api('POST', '/api/v1/settings', { agent_settings_diff: { condenser: { enabled: false } } });
  const page = await go();
  const lines = (from) => Array.from({ length: 25 }, (_, n) => `run: echo line-${from + n}`);
  await begin(page, [...lines(0), 'finish: end-0'].join('\n'));
  for (let from = 25; from <= 75; from += 25) {
    await timeline(page)
      .getByText(`end-${from - 25}`, { exact: true })
      .waitFor();
    await message(page, [...lines(from), `finish: ${from === 75 ? 'the last' : `end-${from}`}`].join('\n'));
  }
  await timeline(page).getByText('the last', { exact: true }).waitFor();
  await page.reload();
  await timeline(page).getByText('the last', { exact: true }).waitFor();
  assert.ok(
    (await timeline(page)
      .getByRole('button', { name: /^Command/ })
      .count()) < 60,
    'only what is visible is there',
  );
  await timeline(page).hover();
  const first = timeline(page).getByRole('button', { name: /echo line-0( |$)/ });
  for (let i = 0; i < 120 && (await first.count()) === 0; i++) {
    await page.mouse.wheel(0, -700);
    await page.waitForTimeout(60);
  }
  await first.waitFor();
  const seen = await timeline(page)
    .getByRole('button', { name: /^Command/ })
    .allInnerTexts();
  assert.equal(new Set(seen).size, seen.length, 'no step is there twice');
});

await step('a fork goes on from an event', async (go) => {
  const page = await go();
  const id = await begin(page, 'run: echo a-$((1+1))\nfinish: first end');
  await timeline(page).getByText('first end', { exact: true }).waitFor();
  await message(page, 'finish: second end');
  await timeline(page).getByText('second end', { exact: true }).waitFor();
  await timeline(page).getByText('first end', { exact: true }).hover();
  await timeline(page)
    .getByRole('article', { name: 'Agent' })
    .filter({ hasText: 'first end' })
    .getByRole('button', { name: 'Continue from here' })
    .click();
  await page.waitForURL((to) => /#\/c\/[0-9a-f]{32}/.test(to.hash) && !to.hash.includes(id));
  await timeline(page).getByText('first end', { exact: true }).waitFor();
  assert.equal(await timeline(page).getByText('second end', { exact: true }).count(), 0);
  await message(page, 'finish: other end');
  await timeline(page).getByText('other end', { exact: true }).waitFor();
});
