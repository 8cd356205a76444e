package docker

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox/hostbox"
)

// nobody is the number shown for those that have none here.
const nobody = 65534

// account is who programs inside are.
type account struct {
	Name     string
	UID, GID uint32
	Home     string
}

// accounts are what an image says of its users and groups. It is not trusted:
// sizes are bounded, and what makes no sense is left out.
type accounts struct {
	users  []account
	groups map[string]uint32
}

func readAccounts() accounts {
	return parseAccounts(readBounded("/etc/passwd"), readBounded("/etc/group"))
}

// readBounded reads a regular file, at most 1 MiB of it; "" if it cannot be read.
func readBounded(path string) string {
	const most = 1 << 20
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(data)
}

// parseAccounts reads passwd(5) and group(5).
func parseAccounts(passwd, group string) accounts {
	a := accounts{groups: map[string]uint32{}}
	for line := range strings.Lines(passwd) {
		parts := strings.Split(strings.TrimSpace(line), ":")
		if len(parts) < 7 {
			continue
		}
		uid, okUser := number(parts[2])
		gid, okGroup := number(parts[3])
		if okUser && okGroup {
			a.users = append(a.users, account{Name: parts[0], UID: uid, GID: gid, Home: parts[5]})
		}
	}
	for line := range strings.Lines(group) {
		parts := strings.Split(strings.TrimSpace(line), ":")
		if len(parts) < 3 {
			continue
		}
		if gid, ok := number(parts[2]); ok {
			a.groups[parts[0]] = gid
		}
	}
	return a
}

// number reads a user's or a group's number; the greatest means "none" to the kernel.
func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n < 1<<32-1
}

// find returns the account that an image names: user, uid, user:group, uid:gid.
// One that does not exist is an ordinary account without a name, never root.
func (a accounts) find(user string) account {
	name, group, _ := strings.Cut(user, ":")
	if name == "" {
		name = "0"
	}
	who := a.byName(name)
	if gid, ok := number(group); ok {
		who.GID = gid
	} else if gid, ok := a.groups[group]; ok {
		who.GID = gid
	}
	return who
}

func (a accounts) byName(name string) account {
	for _, u := range a.users {
		if u.Name == name {
			return a.complete(u)
		}
	}
	uid, ok := number(name)
	if !ok {
		return a.complete(account{UID: nobody, GID: nobody})
	}
	for _, u := range a.users {
		if u.UID == uid {
			return a.complete(u)
		}
	}
	return a.complete(account{UID: uid})
}

func (a accounts) byID(uid, gid uint32) account {
	who := a.byName(strconv.FormatUint(uint64(uid), 10))
	who.GID = gid
	return who
}

// complete gives an account a name and a home that can be used.
func (accounts) complete(who account) account {
	if who.UID == 0 {
		return account{Name: "root", GID: who.GID, Home: hostbox.Home}
	}
	if who.Name == "" || strings.ContainsAny(who.Name, "\x00/") || len(who.Name) > 64 {
		who.Name = "sandbox"
	}
	home := filepath.Clean(who.Home)
	if !filepath.IsAbs(home) || strings.Contains(home, "\x00") || len(home) > 1024 || !strings.HasPrefix(home, "/home/") {
		home = "/home/" + who.Name
	}
	who.Home = home
	return who
}

// complete adds to a daemon's environment what only the image could say.
func (who account) complete(serve hostbox.ServeFunc) hostbox.ServeFunc {
	return func(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
		for name, value := range map[string]string{"HOME": who.Home, "USER": who.Name, "LOGNAME": who.Name, "SHELL": shell()} {
			if in.Env[name] == "" {
				in.Env[name] = value
			}
		}
		return serve(ctx, lis, in)
	}
}

func shell() string {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash"} {
		if unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return "/bin/sh"
}
