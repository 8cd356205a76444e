import { strict as assert } from 'node:assert';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { accessible, api, step, url } from '../harness.mjs';

/** An installation of GitHub's with two repositories, which takes one token. */
async function gitHost(token, scopes) {
  const repository = (name, isPrivate) => ({
    id: name.length,
    full_name: `acme/${name}`,
    private: isPrivate,
    stargazers_count: 1,
    pushed_at: '2026-03-05T10:00:00Z',
    default_branch: 'main',
    owner: { login: 'acme', type: 'Organization' },
  });
  const all = [repository('alpha', false), repository('secret-plans', true)];
  const branch = (name) => ({ name, commit: { sha: 'a1' }, protected: false });
  const seen = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://x');
    seen.push(request.url);
    const answer = (status, body) => {
      response.writeHead(status, { 'Content-Type': 'application/json', 'X-OAuth-Scopes': scopes });
      response.end(JSON.stringify(body));
    };
    if (request.headers.authorization !== `Bearer ${token}`) return answer(401, { message: 'Bad credentials' });
    if (pathname === '/api/v3/user') return answer(200, { id: 7, login: 'ada', name: 'Ada' });
    if (pathname === '/api/v3/user/repos') return answer(200, all);
    if (pathname === '/api/v3/search/repositories') {
      const [word] = searchParams.get('q').split(' '); // of the name, or of the owner's
      return answer(200, { items: all.filter((each) => each.full_name.includes(word)) });
    }
    const named = /^\/api\/v3\/repos\/(acme\/[\w-]+)(\/branches)?$/.exec(pathname);
    const found = named && all.find((each) => each.full_name === named[1]);
    if (found) return answer(200, named[2] ? ['main', 'feature/one'].map(branch) : found);
    answer(404, { message: 'Not Found' });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { seen, host: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

await step('git providers: a token is tried before and after it is stored', async (go) => {
  const git = await gitHost('ghp_right', 'public_repo');
  const page = await go();
  await page.goto(`${url}/#/settings/git`);
  const tryIt = page.getByRole('button', { name: 'Test connection', exact: true });
  await page.getByLabel('Token', { exact: true }).fill('ghp_wrong');
  await page.getByLabel('Host').fill(git.host);
  await tryIt.click();
  await page.getByText('The token cannot be used').waitFor();
  await page.getByText('rejected the token').waitFor();
  await accessible(page, 'a token that is rejected');
  // The answer has the status of a wrong key; the user stays signed in.
  await page.getByRole('button', { name: 'Check and store' }).click();
  await page.getByRole('alert').getByText('rejected the token').waitFor();
  await page.getByLabel('Host').fill('http://127.0.0.1:9');
  await page.getByText('The token cannot be used').waitFor({ state: 'detached' });
  await tryIt.click();
  await page.getByText('cannot be reached').waitFor();
  await page.getByLabel('Host').fill(git.host);
  await page.getByLabel('Token', { exact: true }).fill('ghp_right');
  await tryIt.click();
  await page.getByText('The token of ada works').waitFor();
  await page.getByText('It lacks the scope repo').waitFor();
  await accessible(page, 'a token that works');
  const stored = await api('GET', '/api/v1/settings').catch(() => null); // none at first
  assert.deepEqual(stored?.provider_tokens_set ?? {}, {});
  await page.getByRole('button', { name: 'Check and store' }).click();
  await page.getByText('Settings saved.').first().waitFor();
  await page.getByRole('button', { name: 'Test connection: GitHub' }).click();
  await page.getByText('The token of ada works').waitFor();
  assert.ok(!(await page.locator('body').innerText()).includes('ghp_right'));
  await page.getByRole('button', { name: 'Delete: GitHub' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No provider is set up.').waitFor();
  git.close();
});

await step('a new conversation: repository and branch are chosen, and not asked for every letter', async (go) => {
  const git = await gitHost('ghp_right', 'repo');
  const token = { token: 'ghp_right', host: git.host };
  await api('POST', '/api/v1/secrets/git-providers', { provider_tokens: { github: token } });
  try {
    const page = await go();
    await page.goto(`${url}/#/new`);
    await page.getByText(/^Options/).click();
    const box = page.getByLabel('Repository');
    await box.pressSequentially('acme/secret-plans', { delay: 40 });
    const branch = page.getByLabel('Branch');
    await branch.locator('option', { hasText: 'feature/one' }).waitFor({ state: 'attached' });
    await branch.selectOption('feature/one');
    await accessible(page, 'a repository and a branch');
    const asked = git.seen.filter((each) => /branches|search/.test(each));
    assert.ok(asked.length <= 6, asked.join('\n'));
    let sent = null;
    await page.route('**/api/v1/app-conversations', (route) => {
      sent = route.request().postDataJSON();
      return route.abort();
    });
    await page.getByLabel('First message').fill('look around');
    await page.getByLabel('First message').press('Enter');
    await page.getByText('The server cannot be reached').first().waitFor();
    const { selected_repository, selected_branch, git_provider } = sent;
    assert.deepEqual(
      [selected_repository, selected_branch, git_provider],
      ['acme/secret-plans', 'feature/one', 'github'],
    );
    assert.equal(await page.getByLabel('First message').inputValue(), 'look around');

    await box.fill('acme/none');
    await page.getByText('has no such thing').waitFor();
  } finally {
    await api('DELETE', '/api/v1/secrets/git-providers');
    git.close();
  }
});
