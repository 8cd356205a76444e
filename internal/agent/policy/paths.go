package policy

import (
	"path"
	"strings"

	"parley/internal/lazyre"
)

// resolve makes a path plain: ~ is the home directory, what is relative is so to
// the directory that the call starts in.
func resolve(cwd, p string) string {
	if i := strings.Index(p, "://"); i > 0 {
		return p
	}
	if !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "~") && cwd != "" {
		p = cwd + "/" + p
	}
	if p == "" {
		return "."
	}
	out := path.Clean(p)
	if rest, ok := strings.CutPrefix(out, "/root/"); ok {
		return "~/" + rest
	}
	if m := homeOf.FindStringSubmatch(out); m != nil && m[1] != "*" {
		return "~/" + m[2]
	}
	return out
}

// homeOf is a path inside of a home directory, as ~user/x or /home/user/x.
var homeOf = lazyre.MustCompile(`^(?:/home/|/Users/|~)([^/]+)/(.+)$`)

// wholes are directories whose content is the system or all that somebody has.
var wholes = lazyre.MustCompile(`^(?:/|~[^/]*|/(?:home|Users)(?:/[^/]+)?|/root` +
	`|/(?:bin|boot|dev|etc|lib|lib32|lib64|libx32|mnt|media|opt|proc|run|sbin|srv|sys|usr|var|System|Library|Applications)` +
	`|/usr/(?:bin|lib|lib64|local|local/bin|sbin|share|libexec|include)|/var/(?:lib|spool|mail|www|db|backups)` +
	`|/etc/(?:ssh|pam\.d|systemd|ssl)|(?:\.\./)*\.\.)$`)

// inSystem are paths that belong to the system.
var inSystem = lazyre.MustCompile(`^/(?:bin|boot|dev|etc|lib|lib32|lib64|opt|proc|root|run|sbin|srv|sys|usr|var|System|Library)/`)

// anything are parts of a path that match every name, or nearly so.
var anything = lazyre.MustCompile(`^[.?*{},\[\]!^]*\*[.?*{},\[\]!^]*$`)

// isWhole reports whether deleting p deletes everything, be it written as the
// directory or as what matches all that is in it.
func isWhole(p string) bool {
	for anything.MatchString(path.Base(p)) && p != "/" && p != "." {
		p = path.Dir(p)
	}
	if wholes.MatchString(p) {
		return true
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return strings.HasPrefix(p, "/") && strings.ContainsAny(first, "*?[") && (rest == "" || first == "*")
}

// isWorkspace reports whether p is all that there is in the starting directory.
func isWorkspace(p string) bool {
	return p == "." || !strings.Contains(p, "/") && anything.MatchString(p) || p == ".git" || strings.HasSuffix(p, "/.git")
}

// disks are devices with somebody's data on them.
var disks = lazyre.MustCompile(`^/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|md|dm-|loop|nbd|mapper/|disk/|rdisk|disk\d|sda|\*|` + hole + `|mem$|kmem$|port$)`)

func isDisk(p string) bool { return disks.MatchString(p) }

// highPaths are files by which others get in, or that run as the system, or that
// run outside of the sandbox where its files are shared with somebody.
var highPaths = lazyre.MustCompile(`^(?:~/\.ssh(?:/(?:authorized_keys2?|rc|environment|config|id_[^/]*))?$` +
	`|/etc/(?:passwd|shadow|group|gshadow|sudoers|crontab|anacrontab|ld\.so\.(?:preload|conf)|hosts\.(?:allow|deny)|rc\.local|profile|environment|bash\.bashrc|bashrc|inittab|fstab|securetty)-?$` +
	`|/etc/(?:sudoers\.d|cron[^/]*|ssh|pam\.d|init\.d|rc\d?\.d|systemd|profile\.d|ld\.so\.conf\.d|security|update-motd\.d|polkit-1|udev|modprobe\.d|xinetd\.d)(?:/|$)` +
	`|/var/spool/(?:cron|at)(?:/|$)|/(?:usr/)?lib/systemd(?:/|$)` +
	`|/boot/|/(?:usr/)?s?bin/|/lib(?:64)?/` +
	`|/proc/(?:sysrq-trigger|sys/|[^/]+/mem$)|/sys/(?:kernel|fs|firmware|module)/` +
	`|/(?:var/)?run/docker\.sock$` +
	`|(?:.*/)?\.git/(?:hooks(?:/|$)|config$)|(?:.*/)?\.husky/_/)`)

// mediumPaths are files that run or decide later what runs, as the same user.
var mediumPaths = lazyre.MustCompile(`^(?:/etc/|~/\.ssh/` +
	`|~/\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|kshrc|cshrc|tcshrc|login|inputrc|xinitrc|xprofile|xsession|pam_environment|netrc|gitconfig|npmrc|pypirc|vimrc|tmux\.conf|screenrc|pythonrc)$` +
	`|~/\.config/(?:fish/|autostart/|systemd/|git/|nvim/)|~/\.local/(?:bin/|share/systemd/)|~/\.(?:aws|kube|docker|gnupg)(?:/|$)` +
	`|~/Library/Launch(?:Agents|Daemons)/|/Library/Launch(?:Agents|Daemons)/` +
	`|/usr/local/|/usr/lib/|/usr/share/|/var/|/opt/|/proc/|/sys/|/root$` +
	`|(?:.*/)?(?:\.envrc|\.vscode/tasks\.json|\.husky/[^/]+|\.npmrc|\.gitmodules)$)`)

// judgePath judges that a path is written, or taken away.
func judgePath(s *scan, p string) {
	if rest, ok := strings.CutPrefix(p, "/tmp/"); ok && !strings.Contains(rest, "..") {
		return
	}
	switch {
	case isDisk(p):
		s.high(rawDisk)
	case highPaths.MatchString(p):
		s.high("writes_system_file")
	case mediumPaths.MatchString(p) && !strings.HasPrefix(p, "/var/tmp/") && !strings.HasPrefix(p, "/proc/self/fd/"):
		s.medium("writes_startup_file")
	}
}

// secrets are files with credentials in them.
var secrets = lazyre.MustCompile(`^(?:~/\.ssh(?:/(?:id_[a-z0-9]+|[^/]*\.pem|[^/]*_key|identity|\*))?$|/etc/(?:g?shadow-?|ssh/ssh_host_[a-z0-9]+_key|sudoers)$` +
	`|~/\.(?:aws|gnupg|azure|kube|docker|password-store|mozilla)(?:/.*)?$|~/\.config/(?:gcloud|gh|google-chrome|chromium|doctl)(?:/.*)?$` +
	`|~/\.(?:netrc|pgpass|git-credentials|npmrc|pypirc|my\.cnf|vault-token|bash_history|zsh_history)$` +
	`|/proc/[^/]+/environ$|/(?:var/)?run/secrets(?:/.*)?$|.*\.kdbx$|(?:.*/)?id_(?:rsa|dsa|ecdsa|ed25519)$)`)

func isSecret(p string) bool { return secrets.MatchString(p) }

// isEnvFile reports whether p holds the settings of a project, often with keys. It
// is read every day; it is the sending away that counts.
func isEnvFile(p string) bool {
	b := path.Base(p)
	return b == ".env" || strings.HasPrefix(b, ".env.") && b != ".env.example" && b != ".env.sample" && b != ".env.template"
}

// laterPaths are files that a shell reads as commands some time.
var laterPaths = lazyre.MustCompile(`(?:\.(?:sh|bash|zsh|ksh)|/\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|envrc)|(?:^|/)\.envrc|\.git/hooks/[^/]+|\.husky/[^/]+)$|^/etc/(?:profile|bash\.bashrc|rc\.local|cron\.(?:hourly|daily|weekly|monthly)/)`)

func runsLater(p string) bool { return laterPaths.MatchString(p) }
