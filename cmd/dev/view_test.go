package dev

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"addon-operator/messages"
	"addon-operator/testkit/golden"
)

// noon is when all facts of these tests happen.
var noon = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

// player presses keys at a view, and notes what it asks for.
type player struct {
	t *testing.T
	model
	asked []string
}

func play(t *testing.T) *player {
	t.Helper()
	p := &player{t: t, model: newModel("modules · a cluster in memory")}
	p.now = noon
	p.wish = func(w wish) {
		p.asked = append(p.asked, strings.TrimSpace(fmt.Sprint([]string{"run", "hook", "retry"}[w.what], " ", w.owner, " ", w.hook)))
	}
	p.open = func(url string) { p.asked = append(p.asked, "open "+url) }
	p.end = func() { p.asked = append(p.asked, "end") }
	p.send(state{Ready: true, Page: "http://127.0.0.1:9115/", Modules: []moduleState{
		{Name: "dns", State: "ready", Ran: noon.Add(-90 * time.Second), Hooks: []string{"010-dns/hooks/nodes.sh", "010-dns/hooks/zones.sh"}},
		{
			Name: "web", State: "failing", Queue: "main 1/2", RetryAt: noon.Add(4 * time.Second), Hooks: []string{"020-web/hooks/a.sh"},
			Problems: []string{"RunModule: helm: release web: template: web/templates/a.yaml:4:8: executing \"web/templates/a.yaml\" at <.Values.web.size>: nil pointer"},
			Excerpt:  []string{"020-web/templates/a.yaml:4:8: error: .Values.web.size: nil pointer", "    4 | size: {{ .Values.web.size }}", "      |          ^"},
		},
		{Name: "db", State: "running", Began: noon.Add(-1200 * time.Millisecond)},
		{Name: "old", State: "disabled", Off: "its flag is off, by values.yaml"},
		{Name: messages.GlobalHooks, State: "1 hook"},
	}})
	for _, f := range []fact{
		newFact(aboutDisk, "web", "saved: 020-web/templates/a.yaml"),
		newFact(aboutHook, "dns", "010-dns/hooks/nodes.sh (nodes) took 12ms, 2 lines", "one", "two\x1b[31m"),
		newFact(aboutDiff, "dns", "ConfigMap dns is changed", "-  a: 1", "+  a: 2"),
		newFact(aboutState, "web", "RunModule: it fails").bad(),
	} {
		f.At = noon
		p.send(f)
	}
	return p
}

func (p *player) send(msg tea.Msg) (cmd tea.Cmd) {
	p.t.Helper()
	next, cmd := p.Update(msg)
	p.model, _ = next.(model)
	return cmd
}

// press presses keys by their names, and runs what they ask for. It reports whether the view ends.
func (p *player) press(keys ...string) (ends bool) {
	p.t.Helper()
	codes := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}}
	for _, name := range keys {
		key, special := codes[name]
		if !special {
			key = tea.Key{Text: name, Code: rune(name[0])}
		}
		if cmd := p.send(tea.KeyPressMsg(key)); cmd != nil {
			_, ends = cmd().(tea.QuitMsg)
		}
	}
	return ends
}

// golden compares the screen with a file, and checks that it fits the terminal.
func (p *player) golden(name string) {
	p.t.Helper()
	got := p.screen()
	lines := strings.Split(got, "\n")
	if len(lines) > p.height {
		p.t.Errorf("%s: %d lines, the terminal has %d", name, len(lines), p.height)
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > p.width {
			p.t.Errorf("%s: wider than %d: %q", name, p.width, line)
		}
	}
	file := filepath.Join("testdata", name+".screen")
	got = strings.NewReplacer("\x1b[7m", "[", "\x1b[m", "]").Replace(got) + "\n"
	golden.File(p.t, file, got)
}

func TestScreens(t *testing.T) {
	for name, how := range map[string]func(p *player){
		"first":         func(*player) {},
		"module-open":   func(p *player) { p.press("down", "enter") },
		"hook-selected": func(p *player) { p.press("enter", "j", "j") },
		"off":           func(p *player) { p.press("j", "j", "j", "enter") },
		"fact-open":     func(p *player) { p.press("tab", "k", "k", "enter") },
		"help":          func(p *player) { p.press("?") },
		"small":         func(p *player) { p.send(tea.WindowSizeMsg{Width: 40, Height: 12}) },
		"tiny":          func(p *player) { p.send(tea.WindowSizeMsg{Width: 10, Height: 3}) },
		"large":         func(p *player) { p.send(tea.WindowSizeMsg{Width: 120, Height: 40}) },
		"ending":        func(p *player) { p.press("q") },
		"starting":      func(p *player) { p.send(state{}) },
		"many": func(p *player) {
			for i := range 2 * maxFacts {
				p.send(fact{At: noon, About: aboutLog, Text: fmt.Sprint("line ", i)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t)
			how(p)
			p.golden(name)
		})
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		keys string
		want string
	}{
		{"r", "run dns"},
		{"down r", "run web"},
		{"j t", "retry web"},
		{"j h", "hook web 020-web/hooks/a.sh"}, // its only one
		{"h", ""},                              // which one?
		{"h j j h", "hook dns 010-dns/hooks/zones.sh"},
		{"enter j r", "run dns"},
		{"k k r", "run dns"},
		{"j j j j j j j r", "run global-hooks"},
		{"o", "open http://127.0.0.1:9115/"},
		{"? r r", "run dns"}, // the first one leaves the help
		{"tab k enter tab r", "run dns"},
		{"q", "end"},
		{"ctrl+c", "end"},
	} {
		p := play(t)
		if ends := p.press(strings.Fields(c.keys)...); ends {
			t.Errorf("%s: the view ends before the operator", c.keys)
		}
		if got := strings.Join(p.asked, ", "); got != c.want {
			t.Errorf("%s asks for %q, want %q", c.keys, got, c.want)
		}
	}
	p := play(t)
	if p.press("ctrl+c", "ctrl+c"); !p.hurried {
		t.Error("Ctrl-C twice waits")
	}
	if cmd := play(t).send(stopped{}); cmd == nil {
		t.Error("the view does not end with the operator")
	}
}

// A line that is selected stays so when others come.
func TestSelectionStays(t *testing.T) {
	p := play(t)
	p.press("j", "tab", "k")
	selected := p.current(factList)
	p.send(newFact(aboutLog, "", "more"))
	p.send(state{Modules: append([]moduleState{{Name: "new"}}, p.state.Modules...)})
	if p.current(factList) != selected || p.current(moduleList) != "m web" {
		t.Errorf("selected are %s and %s", p.current(factList), p.current(moduleList))
	}
	p.press("j", "j")
	p.send(newFact(aboutLog, "", "another"))
	if last := p.lines(factList); p.current(factList) != last[len(last)-1].name {
		t.Error("the last fact is not followed")
	}
}

// With colors, a line that is too long ends them.
func TestColors(t *testing.T) {
	p := play(t)
	p.color = true
	for line := range strings.SplitSeq(p.screen(), "\n") {
		if strings.Contains(line, "\x1b[3") && !strings.HasSuffix(line, "\x1b[m") {
			t.Errorf("the color goes on after %q", line)
		}
	}
	if plain := play(t).screen(); strings.Contains(plain, "\x1b[3") || strings.Contains(plain, "\x1b[2") {
		t.Errorf("colors without being asked for: %q", plain)
	}
}

// What is kept has a bound in bytes, and what was folded of facts that are gone is forgotten. The
// last fact is there.
func TestViewKeepsABoundedPast(t *testing.T) {
	p := play(t)
	p.press("tab", "up", "enter")
	if len(p.unfolded) == 0 {
		t.Fatal("nothing was folded")
	}
	long := make([]string, maxDetail)
	for i := range long {
		long[i] = strings.Repeat("x", maxLine)
	}
	for i := range 100 {
		p.send(newFact(aboutHook, "dns", fmt.Sprint("run ", i), long...))
	}
	size := 0
	for _, f := range p.facts {
		size += f.size()
	}
	if size > maxKept || size != p.kept || p.facts[len(p.facts)-1].Text != "run 99" || len(p.unfolded) > 0 {
		t.Errorf("%d bytes in %d facts (%d counted), folded %v", size, len(p.facts), p.kept, p.unfolded)
	}
}
