package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// step is a block of commands of a page, and the output that the page shows below it, or "".
type step struct{ commands, output string }

// The pages that a stranger reads first.
const (
	readme    = "../README.md"
	firstHour = "../docs/getting-started.md"
	ownModule = "## A module of your own"
)

var fence = regexp.MustCompile("(?s)(?:^|\n)```(\\w*)\n(.*?\n)```")

// section is the text of a page below a heading, up to the next heading of that depth.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	depth, _, _ := strings.Cut(heading, " ")
	section, _, _ = strings.Cut(section, "\n"+depth+" ")
	return section
}

// steps are the steps of a section of a page. Each block is commands, or the output of those before it.
func steps(t *testing.T, page, heading string) (all []step) {
	t.Helper()
	for _, m := range fence.FindAllStringSubmatch(section(t, page, heading), -1) {
		switch last := len(all) - 1; {
		case m[1] == "bash":
			all = append(all, step{commands: m[2]})
		case m[1] == "text" && last >= 0 && all[last].output == "":
			all[last].output = m[2]
		default:
			t.Fatalf("%s, %s: a block of %q is neither commands nor their output:\n%s", page, heading, m[1], m[2])
		}
	}
	return all
}

// shows reports whether an output has the lines that a page shows. … is for any text; times, ages, versions of
// objects and the width of columns vary.
func shows(output, page string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSpace(page))
	for _, varies := range [][2]string{
		{`…`, `.*`},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`},
		{`resourceVersion \d+`, `resourceVersion \d+`},
		{`\b\d+s\b`, `\d+m?\d*s`},
		{` {2,}`, ` +`},
	} {
		pattern = regexp.MustCompile(varies[0]).ReplaceAllLiteralString(pattern, varies[1])
	}
	return regexp.MustCompile(`(?m)^\s*` + pattern + `$`).MatchString(output)
}

// terminal is one of a reader.
type terminal struct {
	*testing.T
	log       func() string // of the operator, for a test that fails
	begin     string        // what he has pasted at its begin
	dir, home string
}

// longestPause is between two looks at something that takes long.
const longestPause = 2 * time.Second

// failed is what a terminal prints that stops at an error.
const failed = "this command has failed: "

// terminal is the second terminal of a reader, who has pasted the export line of make run.
func (p *play) terminal(dir, home string) *terminal {
	p.Helper()
	line := regexp.MustCompile(`(?m)^export KUBECONFIG=.*$`).FindString(p.text())
	if line == "" {
		p.Fatalf("there is no line for a second terminal:\n%s", p.text())
	}
	return &terminal{p.T, p.text, line, dir, home}
}

// paste runs commands as a person does, who does not stop at an error, and gives back what they
// print.
func (t *terminal) paste(commands string) string {
	t.Helper()
	// A hook that fails waits the longer the slower the reader is: a minute is enough for a person only.
	commands = strings.ReplaceAll(commands, "--timeout=60s", "--timeout="+patience.String())
	cmd := exec.Command("bash", "-c", t.begin+"\n"+commands)
	cmd.Dir = t.dir
	for _, variable := range os.Environ() { // the reader has nothing but that
		if !strings.HasPrefix(variable, "ADDON_OPERATOR_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+t.home)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// plays pastes the steps of a page and compares what they print with the page, and with what is wanted besides. Where
// the page waits a moment, the command behind that is run until it prints that.
func (t *terminal) plays(all []step, prints ...string) {
	t.Helper()
	if len(all) != len(prints) {
		t.Fatalf("the page has %d blocks of commands, the test knows %d:\n%v", len(all), len(prints), all)
	}
	for i, s := range all {
		t.step(s, prints[i])
	}
}

func (t *terminal) step(s step, prints string) {
	t.Helper()
	before, again := s.commands, ""
	pause := regexp.MustCompile(`(?m)^sleep \d+; `)
	if at := pause.FindStringIndex(s.commands); at != nil {
		before, again = s.commands[:at[0]], pause.ReplaceAllString(s.commands[at[0]:], "")
	}
	wanted := regexp.MustCompile(prints)
	right := func(out string) bool {
		return wanted.MatchString(out) && (s.output == "" || shows(out, s.output)) && !strings.Contains(out, failed)
	}
	first := t.paste(before)
	out := first + t.paste(again)
	late := time.After(patience)
	// Each look starts programs, and some steps take a minute: a reader who waits longer looks less often.
	for pause := 100 * time.Millisecond; again != "" && !right(out); pause = min(2*pause, longestPause) {
		select {
		case <-time.After(pause):
			out = first + t.paste(again)
			continue
		case <-late:
		}
		break
	}
	if !right(out) {
		t.Fatalf("the page says\n%s\nand shows\n%s\nwanted is %q, and it prints\n%s\n%s", s.commands, s.output, prints, out, t.log())
	}
}

// Who pastes the README's first five minutes sees what it promises.
func TestReadmeIsPlayed(t *testing.T) {
	alone(t)
	p := begin(t)
	p.expect("Ctrl-C ends the operator and the cluster")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p.terminal(root, t.TempDir()).plays(steps(t, readme, "## Five minutes"),
		`prometheus\.retention +"30d" +ConfigMap +resourceVersion`,
		`because of HelmResourcesAbsent: Deployment addon-operator/grafana`,
		`nothing was written.*prometheus\.retention: must match the pattern`,
		`Warning +Refused .*prometheus\.retention: must match the pattern`,
		`prometheus\.retention: "30 days" -> "30d"\n.*validated by the running operator`,
		`configmap/backup-status condition met`,
		`(?s)prometheusEnabled: false -> .*deployment.apps/prometheus condition met\n.*deployment.apps/grafana condition met`,
	)
}

// A module of one's own, made with the README's commands, becomes a release.
func TestOwnModuleIsPlayed(t *testing.T) {
	alone(t)
	home := t.TempDir()
	files, last, found := strings.Cut(steps(t, readme, ownModule)[0].commands, "MODULES_DIR=")
	if last != "~/add-ons/modules make run\n" || !found {
		t.Fatalf("the block ends with %q", last)
	}
	if out := (&terminal{t, nil, "set -e", home, home}).paste(files); out != "" {
		t.Fatal(out)
	}
	p := begin(t, "MODULES_DIR="+filepath.Join(home, "add-ons", "modules"))
	p.expect("Ctrl-C ends the operator and the cluster")
	look := step{commands: "kubectl -n addon-operator get configmap hello -o yaml; kubectl -n addon-operator get secret sh.helm.release.v1.hello.v1 -o name"}
	p.terminal(home, home).plays([]step{look}, `(?s)text: hello world, v1\..*secret/sh\.helm\.release\.v1\.hello\.v1`)
}

// What make run prints to try next works by copy and paste, also in another namespace.
func TestNextStepsArePlayed(t *testing.T) {
	aloneInFull(t)
	p := begin(t, "NAMESPACE=elsewhere")
	p.expect("Ctrl-C ends the operator and the cluster")
	_, next, _ := strings.Cut(p.text(), "== what to try next")
	next, _, _ = strings.Cut(next, "\n== ")
	var all []step
	for block := range strings.SplitSeq(next, "\n\n") {
		var lines []string
		for line := range strings.SplitSeq(block, "\n") {
			if command, indented := strings.CutPrefix(line, "   "); indented {
				lines = append(lines, command)
			}
		}
		all = append(all, step{commands: strings.Join(lines, "\n")})
	}
	p.terminal(t.TempDir(), t.TempDir()).plays(all,
		`retention.*30d`, `backup +40 +ready`, `secret/ca-bundle condition met`, `prometheusEnabled: false -> \(none\)`)
}

// Who pastes docs/getting-started.md gets a module, and sees what the page promises.
func TestGettingStartedIsPlayed(t *testing.T) {
	aloneInFull(t)
	home := t.TempDir()
	dir := filepath.Join(home, "hello")
	section := func(heading string) []step { return steps(t, firstHour, heading) }
	files, _, found := strings.Cut(section("## 1. Start")[0].commands, "rm -rf .run")
	if !found {
		t.Fatal("the first block does not begin with an empty .run")
	}
	prepare := exec.Command("bash", "-ec", files)
	prepare.Env = append(os.Environ(), "HOME="+home)
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := begin(t, "MODULES_DIR="+filepath.Join(dir, "modules"))
	p.expect("Ctrl-C ends the operator and the cluster")
	reader := p.terminal(dir, home)
	section2 := section("## 2. A module is a directory")
	reader.plays(section2[:1], ``)
	p.expect("greeter: no flag anywhere") // a reader takes as long as the operator needs to find the directory
	reader.plays(section2[1:], `(?m)^Hello, world!$`)
	reader.plays(section("## 3. Values"), `(?m)^Good morning, world!$`)
	reader.plays(section("## 4. A hook"), ``, `(?m)^{"namespaces":"5","text":"Good morning, world!"}$`, `(?m)^{"namespaces":"6","text":"Good morning, world!"}$`)
	reader.plays(section("## 5. Break it and fix it"), `module/greeter .*BACKOFF.*jqq: command not found`, ``)
	p.expect("there are 7 namespaces")
	upgraded := step{commands: "sleep 1; kubectl -n addon-operator get configmap greeter -o jsonpath='{.data.namespaces}'"}
	reader.plays([]step{upgraded}, `^7`)
	section6 := section("## 6. Refuse nonsense")
	reader.plays(section6[:1], ``)
	inForce := step{commands: "sleep 1; addon-operator module list | grep -c 'changed on disk' || true"}
	reader.plays([]step{inForce}, `^0`)
	reader.plays(section6[1:], `nothing was written.*greeter\.greting: is not a known key`)
	reader.plays(section("## 7. Take it away"), `confirm-purge=4b249b519fef`, `annotated\n(configmap/greeter condition met\n)?$`)
	p.interrupt()
	p.ends(0)
}
