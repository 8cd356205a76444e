package policy

import (
	"strings"

	"parley/internal/conversation"
	"parley/internal/lazyre"
)

// line is the command in one line: its name without directory, its words with one
// blank between, and no blanks or line ends inside of words. All disguise is gone
// from it, so that patterns can be anchored.
func (c *command) line() string {
	var b strings.Builder
	b.WriteString(c.name)
	for _, a := range c.args {
		if b.Len() > maxLine {
			break
		}
		b.WriteByte(' ')
		b.WriteString(strings.Join(strings.Fields(a.text), "_"))
	}
	return b.String()
}

// maxLine bounds the part of a command that patterns are held against, in bytes.
const maxLine = 16 << 10

// linePattern is a pattern of commands.
type linePattern struct {
	rule rule
	risk string
	re   *lazyre.Regexp
}

// judgeLine holds the command against the patterns.
func (c *command) judgeLine() {
	line := c.line()
	for _, p := range linePatterns {
		if rank(p.risk) > rank(c.risk) && p.re.MatchString(line) {
			c.find(p.rule, p.risk)
		}
	}
	if isDatabase.MatchString(c.name) {
		c.sql(joined(c.args).text + "\n" + c.in.text)
	}
}

func high(r rule, re string) linePattern {
	return linePattern{r, conversation.RiskHigh, lazyre.MustCompile(`^(?:` + re + `)`)}
}

func medium(r rule, re string) linePattern {
	return linePattern{r, conversation.RiskMedium, lazyre.MustCompile(`^(?:` + re + `)`)}
}

// linePatterns are what is dangerous by its line alone, after what stands before
// it (sudo, env, xargs ...) was taken off. Read only.
var linePatterns = []linePattern{
	high("stops_machine", `(?:shutdown|reboot|halt|poweroff)(?: |$)|(?:init|telinit) [06](?: |$)|systemctl (?:-\S+ )*(?:poweroff|reboot|halt|kexec|emergency|rescue)\b`),
	high("kills_all", `kill (?:-\S+ |-s \S+ )*(?:-- )?-1(?: |$)|kill -(?:9|KILL|SIGKILL) (?:1|-1)(?: |$)|killall5\b|pkill (?:-\S+ )*(?:-u|-U) ?root`),
	high("opens_firewall", `iptables (?:-\S+ \S+ )*(?:-F|--flush)|ip6?tables -P \S+ ACCEPT|ufw (?:--force )?(?:disable|reset)|nft flush|setenforce (?:0|Permissive)|aa-teardown|systemctl (?:stop|disable|mask) (?:firewalld|ufw|auditd|apparmor)`),
	high("kernel", `(?:insmod|modprobe|rmmod|kexec)(?: |$)|sysctl .*kernel\.(?:core_pattern|modules_disabled|randomize_va_space)`),
	high("accounts", `(?:chpasswd|visudo|newusers)(?: |$)|passwd(?: -\S+)* (?:root|-d)|usermod .*(?:-aG|-G|-a -G|--groups|--append)[ =]?\S*(?:sudo|wheel|root|docker|admin)|adduser \S+ (?:sudo|wheel|docker|root)|gpasswd -a \S+ (?:sudo|wheel|docker|root)|useradd .*-(?:o|u 0)`),
	high("capabilities", `setcap(?: |$)`),
	high("mines", `(?:xmrig|minerd|cpuminer|ethminer|nbminer|t-rex|cgminer|bfgminer|phoenixminer|lolminer)\b`),
	high("deletes_cloud", `aws (?:-\S+ \S+ )*(?:s3 (?:rb|rm .*--recursive)|ec2 terminate-instances|rds delete-db|dynamodb delete-table|cloudformation delete-stack|iam (?:delete|create-access-key|attach|put)|organizations |kms schedule-key-deletion|eks delete-cluster)`),
	high("deletes_cloud", `gcloud .*\b(?:delete|add-iam-policy-binding|set-iam-policy)\b|gsutil .*(?:\brb\b|\brm .*-r)|az .*\bdelete\b|doctl .*\b(?:delete|rm)\b|heroku (?:apps:destroy|pg:reset)|fly(?:ctl)? (?:apps? )?destroy|vercel (?:rm|remove)\b`),
	high("deletes_cloud", `(?:terraform|tofu|terragrunt|pulumi|cdk) .*\bdestroy\b|(?:terraform|tofu|terragrunt) .*apply .*-destroy`),
	high("deletes_cloud", `(?:kubectl|oc) .*\bdelete\b.*(?:(?:^| )(?:ns|namespaces?|pv|pvc|crd|nodes?)[ /]|--all\b|(?: |^)-A\b|--all-namespaces)|kubectl drain `),
	high("deletes_repository", `gh (?:repo (?:delete|archive)|api .*(?:-X|--method)[ =]?DELETE|secret set)|glab repo delete`),
	high("deletes_database", `dropdb(?: |$)|redis-cli .*\b(?:flushall|flushdb|FLUSHALL|FLUSHDB)\b|mysqladmin .*\bdrop\b`),
	medium("changes_database", `(?:rails|rake) db:(?:drop|reset)\b|\S+ (?:\S*/)?artisan (?:migrate:fresh|db:wipe)|\S+ (?:\S*/)?manage\.py flush`),
	high("deletes_history", `git .*\b(?:filter-branch|filter-repo)\b|git (?:-\S+ )*push .*--mirror|git (?:-\S+ )*update-ref -d|git reflog expire .*--expire(?:-unreachable)?=(?:now|all).*--all`),
	high("hides_traces", `history -[cw]*c|auditctl -[De]|journalctl .*--vacuum-(?:time=1s|size=1)|wevtutil cl`),
	high("leaves_sandbox", `(?:capsh|bpftool|debugfs|runc|ctr)(?: |$)|mount .*(?:/dev/(?:sd|nvme|vd|xvd)|-t (?:proc|sysfs|cgroup)|--bind /(?: |$)|remount)`),

	medium("git_rewrites", `git (?:-\S+ )*push .*(?:--force\b|--force-with-lease|-f(?: |$)|--delete|(?: |^)-d |--prune| \+\S| :\S)|git (?:-\S+ )*(?:reset .*--hard|clean .*-\S*[fdx]|branch .*-D|stash (?:drop|clear)|checkout .*-f\b|gc .*--prune=now|reflog (?:expire|delete)|tag -d)`),
	medium("publishes", `(?:npm|yarn|pnpm|bun|cargo|poetry|flit|hatch|uv|lerna) (?:-\S+ )*publish\b|twine upload|gem push|(?:docker|podman) (?:image )?push|gh (?:release (?:create|delete)|pr merge|workflow run)|mvn .*\bdeploy\b|goreleaser (?:release|publish)|helm push|npm (?:unpublish|deprecate|owner|token)`),
	medium("changes_cloud", `(?:terraform|tofu|terragrunt|pulumi|cdk|serverless|sls|sam|eb|firebase|netlify|wrangler|vercel|fly|flyctl|heroku|ansible-playbook|skaffold|helmfile|argocd) .*\b(?:apply|up|deploy|release|push|sync|import)\b|(?:kubectl|oc) .*\b(?:apply|delete|create|replace|patch|scale|edit|cordon|rollout|set)\b|helm (?:install|upgrade|rollback|uninstall|delete)|ansible-playbook `),
	medium("changes_cloud", `aws .*\b(?:create|delete|put|update|modify|terminate|run-instances|s3 (?:cp|mv|rm|sync))|gcloud .*\b(?:create|deploy|update)\b|az .*\b(?:create|update)\b|gsutil .*\b(?:cp|mv|rm|rsync)\b`),
	medium("services", `(?:systemctl|service|launchctl|rc-service|sv) .*\b(?:stop|disable|mask|enable|kill|restart|start|load|unload)\b|(?:useradd|userdel|usermod|groupadd|groupdel|passwd|chsh|adduser|deluser)(?: |$)|chkconfig|update-rc\.d`),
	medium("kills_many", `(?:killall|pkill)(?: |$).*(?:-9|-KILL|-f| -u)|kill -(?:9|KILL|SIGKILL) |fuser .*-k`),
	medium("mounts", `(?:mount|umount|swapoff|swapon|losetup|kpartx) .*(?:/|-a\b)|(?:sysctl|ip|ifconfig|route|tc|iptables|ip6tables|nft|ufw)(?: -\S+)* (?:-\S+ )?\S*(?:/|set|add|del|-w|-A|-I|-D|down|up|flush|allow|deny)`),
	medium("cleans_containers", `(?:docker|podman) .*\b(?:prune|rm -\S*f|rmi -\S*f|volume rm|kill|system reset)\b|docker(?:-| )compose .*down .*(?:-v|--volumes|--rmi)`),
	medium("scans", `(?:nmap|masscan|zmap|hydra|medusa|john|hashcat|sqlmap|nikto|msfconsole|msfvenom|gobuster|aircrack-ng|tcpdump|tshark|ettercap|responder)(?: |$)`),
	medium("tunnels", `(?:ngrok|cloudflared|frpc|chisel|bore|localtunnel|lt|tailscale|wg-quick|openvpn|autossh)(?: |$)`),
	medium("installs_from_address", `(?:pip3?|uv pip|pipx|python3? -m pip|npm|yarn|pnpm) .*(?:install|add|i) .*(?:git\+|https?://|git://|ssh://)|pip3? .*--(?:extra-)?index-url|npm .*--registry[ =]http:|gem install .*--source|go install .*@(?:master|main)|cargo install --git|(?:dpkg -i|rpm -[iU]|apt-get install|apt install) .*(?:/tmp/|https?://)`),
	medium("no_verification", `apt(?:-get)? .*--allow-unauthenticated|curl .*(?:-k |--insecure).*-o|(?:rpm|yum|dnf) .*--nogpgcheck|npm config set strict-ssl false`),
	medium("reads_secret", `(?:gh auth token|gcloud auth print|aws (?:configure get|secretsmanager get|ssm get-parameter .*--with-decryption|sts )|vault (?:kv get|read)|kubectl .*get secrets?|op (?:read|item get)|pass show|security find-(?:generic|internet)-password|secret-tool lookup|az keyvault secret show|docker (?:secret|config) inspect)`),
	medium("installs_hook", `pre-commit install|husky install|lefthook install|npm config set .*(?:prefix|script-shell|ignore-scripts)`),
}

// isDatabase are clients of databases, whose arguments and input are SQL.
var isDatabase = lazyre.MustCompile(`^(?:psql|mysql|mariadb|sqlite3?|sqlcmd|clickhouse-client|cockroach|snowsql|bq|duckdb|mongo|mongosh|usql|pgcli|mycli|litecli|cqlsh)$`)

var (
	dropsAll    = lazyre.MustCompile(`(?i)\bdrop\s+(?:database|schema|user|role|keyspace)\b|dropDatabase\s*\(|\bcopy\b[^;]*\b(?:to|from)\s+program\b|xp_cmdshell|\bsys_exec\b`)
	dropsSome   = lazyre.MustCompile(`(?i)\bdrop\s+(?:table|view|index|column)\b|\btruncate\b|\balter\s+(?:user|role|table)\b|\bgrant\b|\bdeleteMany\s*\(\s*\{\s*\}|\.drop\s*\(|\bload_file\s*\(|\binto\s+(?:outfile|dumpfile)\b`)
	wholeDelete = lazyre.MustCompile(`(?i)\b(?:delete\s+from\s+[\w."` + "`" + `]+|update\s+[\w."` + "`" + `]+\s+set\b[^;]*)`)
	shellEscape = lazyre.MustCompile(`(?m)(?:^|\s)(?:\\!|\.(?:shell|system)\s)\s*(.+)`)
)

// sql judges statements, and the commands that a client can start from them.
func (s *shell) sql(text string) {
	if dropsAll.MatchString(text) {
		s.high("deletes_database")
	}
	if dropsSome.MatchString(text) {
		s.medium("changes_database")
	}
	for _, st := range strings.SplitN(text, ";", maxStrings) {
		if wholeDelete.MatchString(st) && !strings.Contains(strings.ToLower(st), "where") {
			s.medium("changes_database")
		}
	}
	for _, m := range shellEscape.FindAllStringSubmatch(text, maxValues) {
		s.child(data{m[1], fromFile}, nil, data{})
	}
}
