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

// blocks are the bash blocks of a page below a heading, up to the next heading of that depth.
func blocks(t *testing.T, page, heading string) []string {
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
	var bash []string
	for _, m := range regexp.MustCompile("(?s)(?:^|\n)```bash\n(.*?\n)```").FindAllStringSubmatch(section, -1) {
		bash = append(bash, m[1])
	}
	return bash
}

// terminal is the second terminal of a reader, who has pasted the export line of make run.
type terminal struct {
	*play
	export, dir, home string
}

func (p *play) terminal(dir, home string) *terminal {
	p.Helper()
	line := regexp.MustCompile(`(?m)^export KUBECONFIG=.*$`).FindString(p.text())
	if line == "" {
		p.Fatalf("there is no line for a second terminal:\n%s", p.text())
	}
	return &terminal{p, line, dir, home}
}

// paste runs commands as a person does, who does not stop at an error, and gives back what they
// print.
func (t *terminal) paste(commands string) string {
	t.Helper()
	// A hook that fails waits the longer the slower the reader is: a minute is enough for a person only.
	commands = strings.ReplaceAll(commands, "--timeout=60s", "--timeout="+patience.String())
	cmd := exec.Command("bash", "-c", t.export+"\n"+commands)
	cmd.Dir = t.dir
	for _, variable := range os.Environ() { // the reader has nothing but that line
		if !strings.HasPrefix(variable, "ADDON_OPERATOR_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+t.home)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// plays pastes the blocks of a page and compares what they print. Where the page waits a moment,
// the command behind that is run until it prints what is wanted.
func (t *terminal) plays(blocks []string, prints ...string) {
	t.Helper()
	if len(blocks) != len(prints) {
		t.Fatalf("the page has %d blocks of commands, the test knows %d:\n%s", len(blocks), len(prints), strings.Join(blocks, "\n"))
	}
	pause := regexp.MustCompile(`(?m)^sleep \d+; `)
	for i, block := range blocks {
		again := block
		if at := pause.FindStringIndex(block); at != nil {
			again = pause.ReplaceAllString(block[at[0]:], "")
			block = pause.ReplaceAllString(block, "")
		}
		out := t.paste(block)
		first := out
		late := time.After(patience)
		tick := time.NewTicker(100 * time.Millisecond) // each look is a process
		for !regexp.MustCompile(prints[i]).MatchString(out) && again != block {
			select {
			case <-tick.C:
				out = t.paste(again)
				continue
			case <-late:
			}
			break
		}
		tick.Stop()
		if !regexp.MustCompile(prints[i]).MatchString(out) {
			t.Fatalf("block %d does not print %q:\n%s\nbut at first\n%s\nand in the end\n%s\n%s", i+1, prints[i], blocks[i], first, out, t.text())
		}
	}
}

// Who pastes the README's first five minutes sees what it promises.
func TestReadmeIsPlayed(t *testing.T) {
	p := begin(t)
	p.expect("Ctrl-C ends the operator and the cluster")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p.terminal(root, t.TempDir()).plays(blocks(t, "../README.md", "## Five minutes"),
		`prometheus\.retention +"30d" +ConfigMap +resourceVersion`,
		`because of HelmResourcesAbsent: Deployment addon-operator/grafana`,
		`nothing is written.*prometheus\.retention: must match the pattern`,
		`Warning +Refused .*"30 days"`,
		`prometheus\.retention: "30 days" -> "30d"\n.*validated by the running operator`,
		`configmap/backup-status condition met`,
		`(?s)prometheusEnabled: false -> .*deployment.apps/prometheus condition met\n.*deployment.apps/grafana condition met`,
	)
}

// What make run prints to try next works by copy and paste, also in another namespace.
func TestNextStepsArePlayed(t *testing.T) {
	p := begin(t, "NAMESPACE=elsewhere")
	p.expect("Ctrl-C ends the operator and the cluster")
	_, next, _ := strings.Cut(p.text(), "== what to try next")
	next, _, _ = strings.Cut(next, "\n== ")
	var commands []string
	for _, block := range strings.Split(next, "\n\n") {
		var lines []string
		for _, line := range strings.Split(block, "\n") {
			if command, indented := strings.CutPrefix(line, "   "); indented {
				lines = append(lines, command)
			}
		}
		commands = append(commands, strings.Join(lines, "\n"))
	}
	p.terminal(t.TempDir(), t.TempDir()).plays(commands,
		`retention.*30d`, `backup +40 +ready`, `secret/ca-bundle condition met`, `prometheusEnabled: false -> \(none\)`)
}

// Who pastes docs/getting-started.md gets a module, and sees what the page promises.
func TestGettingStartedIsPlayed(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "hello")
	section := func(heading string) []string { return blocks(t, "../docs/getting-started.md", heading) }
	files, _, found := strings.Cut(section("## 1. Start")[0], "rm -rf .run")
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
	reader.plays(section("## 2. A module is a directory"), ``, `(?m)^Hello, world!$`)
	reader.plays(section("## 3. Values"), `(?m)^Good morning, world!$`)
	reader.plays(section("## 4. A hook"), ``, `(?m)^{"namespaces":"5","text":"Good morning, world!"}$`, `(?m)^{"namespaces":"6","text":"Good morning, world!"}$`)
	reader.plays(section("## 5. Break it and fix it"), `module/greeter .*BACKOFF.*jqq: command not found`, ``)
	p.expect("there are 7 namespaces")
	section6 := section("## 6. Refuse nonsense")
	reader.plays(section6[:1], ``)
	p.interrupt()
	p.ends(0)

	again := begin(t, "MODULES_DIR="+filepath.Join(dir, "modules"), "RUN_DIR="+p.dir)
	again.expect("Ctrl-C ends the operator and the cluster")
	reader = again.terminal(dir, home)
	reader.plays(section6[1:], `nothing is written.*greeter\.greting: is not a known key`)
	reader.plays(section("## 7. Take it away"), `confirm-purge=4b249b519fef`, `annotated\n(configmap/greeter condition met\n)?$`)
	again.interrupt()
	again.ends(0)
}
