package policy

import (
	"strings"

	"parley/internal/lazyre"
)

// isFetcher reports whether a command brings in what others wrote, and can send.
func isFetcher(name string) bool {
	switch name {
	case "curl", "wget", "wget2", "aria2c", "axel", "fetch", "http", "https", "httpie", "xh", "curlie", "lynx", "w3m", "links", "elinks",
		"nc", "ncat", "netcat", "socat", "telnet", "ftp", "lftp", "tftp", "sftp", "GET", "lwp-request", "lwp-download",
		"dig", "nslookup", "host", "drill", "websocat", "grpcurl", "mail", "mailx", "sendmail", "mutt", "swaks", "gdown", "yt-dlp":
		return true
	}
	return false
}

// fetch is a command that talks to others.
func (c *command) fetch() data {
	line := c.line()
	if metadataHost.MatchString(line) {
		c.high("cloud_credentials")
	}
	if !toItself.MatchString(line) {
		c.sends(c.in)
		c.sends(c.args...)
	}
	switch c.name {
	case "nc", "ncat", "netcat", "socat":
		c.connects(line)
	case "wget", "wget2":
		return c.wget()
	case "curl", "curlie":
		return c.curl()
	case "aria2c", "axel", "lwp-download", "gdown":
		return c.download("-o -O -d --out --dir --output", "-o", "-O", "--out", "--output")
	}
	return unknown(fromNet | c.in.from&fromSecret)
}

// metadataHost is where the machines of a cloud find their credentials.
var metadataHost = lazyre.MustCompile(`169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|metadata\.azure|100\.100\.100\.200|fd00:ec2::254|\[fd00:ec2|2852039166|0xa9fea9fe`)

// toItself is a request to this machine.
var toItself = lazyre.MustCompile(`(?:^|[\s/@'"=])(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1\]|::1|host\.docker\.internal)(?:[:/\s'"]|$)`)

var namedFile = lazyre.MustCompile(`(?:^|=)[@<]([^;,]+)`)

// sends judges what a command sends to others.
func (s *shell) sends(ds ...data) {
	for _, d := range ds {
		if d.has(fromSecret) {
			s.high("sends_secret")
		}
		for _, m := range namedFile.FindAllStringSubmatch(d.text, maxValues) {
			if m[1] != "-" {
				s.sendsFile(m[1])
			}
		}
	}
}

func (s *shell) sendsFile(name string) {
	if s.read(name).has(fromSecret) {
		s.high("sends_secret")
	}
}

// connects judges a bare connection.
func (c *command) connects(line string) {
	if execOption.MatchString(line) {
		c.high("reverse_shell")
	}
	if d := c.in; d == unknown(d.from) && c.piped && d.has(fromNet) {
		c.medium("raw_connection")
	}
}

var execOption = lazyre.MustCompile(`(?i)^(?:nc|ncat|netcat)\b.* (?:-[a-z46]*[ec]|--exec|--sh-exec|--lua-exec)(?:[ =]|$)|^socat\b.*\b(?:exec|system)[:.]`)

// download is a command that writes what it fetches to a file.
func (c *command) download(takes string, names ...string) data {
	o := parseOptions(c.args, takes)
	for _, f := range o.values(names...) {
		c.write(f.text, unknown(fromNet), false)
	}
	if len(o.values(names...)) == 0 {
		c.saveAs(o.operands)
	}
	return unknown(fromNet)
}

func isStdout(p string) bool {
	return p == "-" || p == "/dev/stdout" || p == "/dev/fd/1" || p == "/proc/self/fd/1"
}

// saveAs notes the files that get the names of their addresses.
func (c *command) saveAs(urls []data) {
	for _, u := range urls {
		name, _, _ := strings.Cut(strings.TrimSuffix(u.text, "/"), "?")
		c.write(base(name), unknown(fromNet), false)
	}
}

func (c *command) wget() data {
	o := parseOptions(c.args, "-O -o -a -P -U -t -T -w -e -i -B -D -A -R -I -X -l -Q --output-document --output-file --directory-prefix "+
		"--header --post-data --post-file --body-file --body-data --user --password --user-agent --tries --timeout --referer --input-file --method --execute")
	for _, f := range o.values("--post-file", "--body-file") {
		c.sendsFile(f.text)
	}
	files := o.values("-O", "--output-document")
	for _, f := range files {
		if isStdout(f.text) {
			return unknown(fromNet)
		}
		c.write(f.text, unknown(fromNet), false)
	}
	if len(files) == 0 && !o.has("--spider") {
		dir := o.values("-P", "--directory-prefix")
		for _, u := range o.operands {
			name, _, _ := strings.Cut(strings.TrimSuffix(u.text, "/"), "?")
			if name = base(name); len(dir) > 0 {
				name = dir[0].text + "/" + name
			}
			c.write(name, unknown(fromNet), false)
		}
	}
	return data{}
}

// curlTakes are the options of curl with a value.
const curlTakes = "-o -d -H -X -u -F -T -A -e -b -c -x -m -w -K -C -E -r -y -Y -z -D -h -P -Q -t -U --output --data --data-raw --data-binary --data-ascii " +
	"--data-urlencode --json --header --request --user --form --form-string --upload-file --user-agent --referer --cookie --cookie-jar --proxy --max-time " +
	"--write-out --config --cacert --cert --key --connect-timeout --retry --retry-delay --retry-max-time --resolve --url --output-dir --unix-socket " +
	"--range --limit-rate --interface --ciphers --max-redirs --dump-header --oauth2-bearer --aws-sigv4 --proxy-user --socks5 --url-query --variable"

func (c *command) curl() data {
	o := parseOptions(c.args, curlTakes)
	remote := !toItself.MatchString(c.line())
	for _, f := range o.values("-T", "--upload-file") {
		if remote {
			c.sendsFile(f.text)
			c.medium("sends_file")
		}
	}
	for _, v := range o.values("--unix-socket") {
		judgePath(c.scan, resolve(c.cwd(), v.text))
	}
	written := false
	for _, f := range o.values("-o", "--output") {
		if !isStdout(f.text) {
			c.write(f.text, unknown(fromNet), false)
			written = true
		}
	}
	if o.has("-O", "--remote-name", "--remote-name-all") {
		c.saveAs(append(o.operands, o.values("--url")...))
		written = true
	}
	if written {
		return data{}
	}
	return unknown(fromNet)
}
