package app

import "parley/internal/fernet"

// cipher is what secrets are shown to a user encrypted with. Each has a key of their
// own: what was encrypted for one is nothing to another. A configured key is the one
// that other servers have, too.
func (a *App) cipher(owner string) *fernet.Cipher {
	if a.cfg.SecretKey.IsSet() {
		return fernet.Of(a.cfg.SecretKey.Reveal())
	}
	return fernet.New([32]byte(a.keys.Derive("secrets of clients: " + owner)))
}
