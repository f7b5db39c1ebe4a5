package testkit

import (
	"bytes"
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"addon-operator/testkit/golden"
)

// Lifecycle plays every script that matches the pattern and compares its trace with the
// one in the archive.
func Lifecycle(t *testing.T, pattern string) { each(t, pattern, lifecycle) }

// each calls play with each script that matches the pattern, in a test of its own.
func each(t *testing.T, pattern string, play func(t *testing.T, path string, archive *txtar.Archive)) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no lifecycle scripts match %s (%v)", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			play(t, path, archive)
		})
	}
}

// lifecycle plays one script, and writes its trace into the file with -update. Problems fail the
// test in both cases, also crashes that did not happen: -update accepts other behaviour, but none that
// is wrong in any script.
func lifecycle(t *testing.T, path string, archive *txtar.Archive) {
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		t.Errorf("%s must begin with a sentence that states what it proves", path)
	}
	stage := NewStage(t, archive)
	played := stage.Play(t, stage.Script, 0)
	for _, problem := range slices.Concat(played.Problems, played.unusedCrashes) {
		t.Error(problem)
	}
	golden.Part(t, path, archive, "script", played.Trace)
}

// scriptLines are the steps, which may be without >, and the comments of a script. Lines of a trace begin with spaces
// or with a digit.
func scriptLines(script string) (lines []string) {
	for _, line := range regexp.MustCompile(`(?m)^(?:> *)?([a-z#].*)$`).FindAllStringSubmatch(script, -1) {
		lines = append(lines, strings.TrimSpace(line[1]))
	}
	return lines
}

// ordered marks a script whose runs depend on the order of messages by their nature: its comment
// has these words, and after them why. Then only the final state is compared.
const ordered = "Runs depend on the order:"

// How much is played, and from where on: a nightly run plays more, or others.
var (
	seedsFlag     = flag.Uint64("seeds", 0, "number of seeds for each lifecycle script, instead of the number in its test")
	firstSeedFlag = flag.Uint64("first-seed", 1, "first seed of lifecycle scripts")
)

// Interleave plays every script that matches the pattern under n seeds of the scheduler,
// from 1 on: a suite of 80 scripts makes 80 n plays. Whatever the order of messages is, the
// same must be left in the end and the same hooks must have run.
func Interleave(t *testing.T, pattern string, n uint64) {
	if *seedsFlag > 0 {
		n = *seedsFlag
	}
	each(t, pattern, func(t *testing.T, _ string, archive *txtar.Archive) { interleave(t, archive, n) })
}

// interleave compares each play with the one in the order of arrival, which the golden trace shows.
// The first seed that differs ends the test.
func interleave(t *testing.T, archive *txtar.Archive, seeds uint64) {
	text := strings.Join(strings.Fields(string(archive.Comment)), " ")
	sameRuns := !strings.Contains(text, ordered)
	stage := NewStage(t, archive)
	want := stage.Play(t, stage.Script, 0)
	for seed := *firstSeedFlag; seed < *firstSeedFlag+seeds; seed++ {
		got := stage.Play(t, stage.Script, seed)
		a, b := want.Left, got.Left
		if sameRuns {
			a, b = a+runs(want.Trace), b+runs(got.Trace)
		}
		if a != b || len(got.Problems) > 0 {
			t.Fatalf("under seed %d the script ends differently than in the order of arrival\n%s\nproblems: %q\ntrace:\n%s", seed, golden.Diff(a, b), got.Problems, got.Trace)
		}
	}
}

// runs are the binding contexts that hooks were run for, sorted.
func runs(trace string) string {
	var all []string
	for _, run := range regexp.MustCompile(`(?m)^ *\S+ {2}hook (\S+): (.+)$`).FindAllStringSubmatch(trace, -1) {
		for context := range strings.SplitSeq(run[2], " + ") {
			all = append(all, run[1]+": "+context+"\n")
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// FirstSeed is what -first-seed says, for tests that draw from seeds of their own.
func FirstSeed() uint64 { return *firstSeedFlag }

//go:embed testdata/random.txtar
var randomWorld []byte

// Random is a lifecycle script that was drawn from a seed. Whatever happens in it, once all is fixed, the operator has
// converged, and what is left is what another one makes that finds the same files, ConfigMap and objects at its first
// start.
type Random struct {
	Script, Fresh string // for a stage of NewRandomStage: all that happens, and what that other one finds

	rnd       *rand.Rand
	configMap map[string]string // as a person wrote it, without what hooks save
	invalid   map[string]bool   // keys that make it invalid now
	dirs      map[string]string // by module: the name of its directory now; "" while it is away
	objects   map[string]bool   // those that exist
	running   bool              // the operator, at this place of the script
	number    int               // makes each value that is written another one
}

// directories are those of the modules, by their first names. The other name gives a module another place.
func directories() map[string]string {
	return map[string]string{"a": "010-a", "b": "010-b", "c": "020-c", "d": "030-d", "e": "040-e"}
}

// NewRandomStage is where random scripts are played: all have the same files.
func NewRandomStage(t *testing.T) *Stage {
	t.Helper()
	return NewStage(t, txtar.Parse(randomWorld))
}

// NewRandom draws a script.
func NewRandom(seed uint64) *Random {
	r := &Random{rnd: rand.New(rand.NewPCG(seed, 1)), configMap: map[string]string{}, invalid: map[string]bool{}, dirs: directories(), objects: map[string]bool{}}
	r.add("allow-purge") // the cluster must become as the directories are
	r.add("%s", r.oneOf("isolate", "width 3", "width 1"))
	for range 10 + r.rnd.IntN(35) { // few are enough to meet in one reload; a failure of a long script is hard to read
		r.draw()
	}
	// All faults end, and a last reload finds the directories. What follows is time enough for the longest delay of
	// retries.
	r.add("no-faults")
	r.repair()
	if !r.running {
		r.start()
	}
	for range 2 { // a purge that fails, because a module has not run yet, is tried by the next reload
		r.number++
		r.set("global", fmt.Sprintf("size: %d", r.number))
		r.set("b", "size: 1") // without what its hook has saved while it was enabled
		r.Script += last
	}
	for _, module := range slices.Sorted(maps.Keys(r.dirs)) {
		switch first, now := directories()[module], r.dirs[module]; now {
		case first:
		case "":
			r.Fresh += "remove modules/" + first + "\n"
		default:
			r.Fresh += "rename modules/" + first + " modules/" + now + "\n"
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.configMap)) {
		r.Fresh += "configmap-set " + key + " " + r.configMap[key] + "\n"
	}
	for _, object := range slices.Sorted(maps.Keys(r.objects)) {
		if r.objects[object] {
			r.Fresh += "object " + object + "\n"
		}
	}
	r.Fresh += "start\n" + last
	return r
}

const last = "advance 5m\n"

func (r *Random) add(format string, args ...any) { r.Script += fmt.Sprintf(format, args...) + "\n" }

// oneOf draws an element; one that is listed twice is drawn twice as often.
func (r *Random) oneOf(list ...string) string { return list[r.rnd.IntN(len(list))] }

// draw adds a step or two. While the operator does not run, other steps are drawn, too: the start after them finds
// their effects.
func (r *Random) draw() {
	if !r.running && r.rnd.IntN(3) == 0 {
		r.start()
		r.advance() // what comes next comes during the first reload
		return
	}
	module := r.oneOf("a", "b", "c", "d", "e")
	what := r.oneOf("values", "values", "flag", "flag", "refused", "object", "object", "hook", "hook", "helm", "directory", "end", "advance", "advance", "advance")
	switch {
	case what == "values" || what == "flag" || what == "refused":
		r.edit(what, module)
	case what == "object":
		object := r.oneOf("Pod d/one", "Pod d/two", "Node one")
		r.add("%s %s", map[bool]string{true: "delete", false: "object"}[r.objects[object]], object)
		r.objects[object] = !r.objects[object]
	case what == "hook":
		r.hook(module)
	case what == "helm":
		r.add("%s", r.oneOf("fail-helm "+module+" 1", "fail-helm "+module+" 3", "slow-helm "+module+" 0s", "slow-helm "+module+" 3s", "slow-helm "+module+" 30s"))
	case what == "directory":
		r.directory(module)
	case what == "end" && r.running: // perhaps in the middle of what it does
		r.running = false
		r.add("%s", r.oneOf("stop", "kill"))
	case what == "advance":
		r.advance()
	}
}

// edit changes the ConfigMap.
func (r *Random) edit(what, module string) {
	switch {
	case what == "values" && module == "c":
		r.set("c", r.oneOf("wanted: true", "wanted: false")) // its enabled script asks for that
	case what == "values":
		r.number++
		r.set(r.oneOf("global", module), fmt.Sprintf("size: %d", r.number))
	case what == "flag" && r.rnd.IntN(4) == 0:
		r.remove(r.oneOf(module, module+"Enabled"))
	case what == "flag":
		r.set(module+"Enabled", r.oneOf("true", "false"))
	case r.running: // it refuses to start otherwise
		key := r.oneOf("b", "aEnabled")
		r.set(key, map[string]string{"b": "size: many", "aEnabled": "perhaps"}[key])
		r.invalid[key] = true
	}
}

// set sets a key of the ConfigMap.
func (r *Random) set(key, text string) {
	r.configMap[key] = text
	delete(r.invalid, key)
	r.add("configmap-set %s %s", key, text)
}

func (r *Random) remove(key string) {
	if _, ok := r.configMap[key]; ok {
		delete(r.configMap, key)
		delete(r.invalid, key)
		r.add("configmap-remove %s", key)
	}
}

// hook lets a hook, its question for its configuration or its object patches fail or last.
func (r *Random) hook(module string) {
	own := map[string]string{"b": r.dirs["b"] + "/hooks/side.sh", "e": "g.sh"} // e has none
	hook := cmp.Or(own[module], r.dirs[module]+"/hooks/h.sh")
	switch n := r.rnd.IntN(6); {
	case n == 0:
		r.add("fail-objects %d", 1+r.rnd.IntN(4))
	case n == 1 && hook != "g.sh": // without a global hook the operator refuses to start
		r.add("fail-config %s %d", hook, 1+r.rnd.IntN(4))
	case n <= 3:
		r.add("fail %s %d", hook, 1+r.rnd.IntN(4))
	default:
		r.add("slow %s %s", hook, r.oneOf("0s", "200ms", "2s", "7s", "40s"))
	}
}

// directory removes, restores or renames the directory of a module.
func (r *Random) directory(module string) {
	first, now := directories()[module], r.dirs[module]
	other := first[:2] + "5" + first[3:]
	switch {
	case now == "":
		r.add("restore modules/%s", first)
		r.dirs[module] = first
	case r.rnd.IntN(2) == 0:
		r.add("remove modules/%s", now)
		r.dirs[module] = ""
	default:
		if now == other {
			other = first
		}
		r.add("rename modules/%s modules/%s", now, other)
		r.dirs[module] = other
	}
}

func (r *Random) start() {
	r.repair()
	r.running = true
	r.add("start")
}

// repair makes the ConfigMap valid again.
func (r *Random) repair() {
	for _, key := range slices.Sorted(maps.Keys(r.invalid)) {
		r.remove(key)
	}
}

func (r *Random) advance() {
	longest := []int{100, 1000, 20_000}[r.rnd.IntN(3)] // in the middle of a hook, or of the waiting after it
	r.add("advance %s", time.Duration(1+r.rnd.IntN(longest))*time.Millisecond)
}

// Violations lists what is wrong after both scripts were played.
func (r *Random) Violations(played, fresh *Played) []string {
	list := slices.Concat(played.Problems, fresh.Problems)
	if fresh.Left != played.Left {
		list = append(list, "it differs from what another operator makes of that:\n"+golden.Diff(fresh.Left, played.Left))
	}
	if !fresh.Converged {
		list = append(list, "the other operator has not converged:\n"+fresh.Left)
	}
	return list
}
