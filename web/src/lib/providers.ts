import type { Provider } from '../api/client';

/** The git providers that tokens can be stored for, by the names that people know. */
export const providers: Partial<Record<Provider, string>> = {
  github: 'GitHub',
  gitlab: 'GitLab',
  bitbucket: 'Bitbucket',
  bitbucket_data_center: 'Bitbucket Data Center',
  forgejo: 'Forgejo',
  azure_devops: 'Azure DevOps',
};
