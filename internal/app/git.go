package app

import (
	"parley/internal/forge"
	"parley/internal/forge/azuredevops"
	"parley/internal/forge/bitbucket"
	"parley/internal/forge/bitbucketdc"
	"parley/internal/forge/forgejo"
	"parley/internal/forge/github"
	"parley/internal/forge/gitlab"
	"parley/internal/forge/pass"
	"parley/internal/vault"
)

// newForge makes what talks to git hosting services. The key of access tokens comes
// from the vault's, so that they stay good when the server restarts.
func (a *App) newForge(keys *vault.Vault) *forge.Service {
	return forge.New(forge.Config{Settings: a.store.Accounts(), Passes: pass.New(keys.Derive("git access tokens")), Logger: a.log,
		Openers: map[string]forge.Opener{forge.GitHub: github.Open, forge.GitLab: gitlab.Open, forge.Bitbucket: bitbucket.Open,
			forge.BitbucketDataCenter: bitbucketdc.Open, forge.Forgejo: forgejo.Open, forge.AzureDevOps: azuredevops.Open}})
}
