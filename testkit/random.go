package testkit

import (
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

//go:embed testdata/random.txtar
var randomWorld []byte

// Random is a lifecycle script that was drawn from a seed, with what must hold after it.
//
// It edits the ConfigMap, in valid and invalid ways, changes objects, lets hooks, their object
// patches, Helm and the questions for configurations fail, be refused or last, enables and disables
// modules, removes, restores and renames directories, takes permissions away, and stops, kills and
// starts the operator. One module causes loops and failures: see faultyModule. Others need each other: see
// order. Helm hooks wait: see waits. In the end, and in some scripts in the middle, all is fixed,
// and time passes: then the cluster must be as the files, the ConfigMap, the objects and the last
// results of hooks say, whatever happened.
type Random struct {
	Archive *txtar.Archive
	worlds  []world // what must be so at each step look, and in the end
}

// world is what a random script has made of the files, the ConfigMap and the objects: all that
// decides what must be deployed. The draws change it as the steps that they add will change the
// real one.
type world struct {
	configMap map[string]string // as a person wrote it, without what hooks save
	gone      map[string]bool   // directories of modules, by their first name
	renamed   map[string]bool   // those that have their second name, by the first
	scriptOff bool              // the enabled script of c answers false
	nodes     map[string]bool   // names of objects that exist; pods and services are in the namespace d
	pods      map[string]bool
	services  map[string]bool
}

// clone is for a look: later draws change the maps.
func (w world) clone() world {
	return world{maps.Clone(w.configMap), maps.Clone(w.gone), maps.Clone(w.renamed), w.scriptOff, maps.Clone(w.nodes), maps.Clone(w.pods), maps.Clone(w.services)}
}

// draw is a random script in the making. Its parts (edits, faults and so on) group the draws by
// what they are about; each has the draw itself embedded, and a few fields of its own.
type draw struct {
	rnd          *rand.Rand
	steps        []string
	world        world
	invalid      map[string]bool // keys of the ConfigMap that make it invalid now
	running      bool            // the operator, at this place of the script
	number       int             // makes each value that is written another one
	steady       bool            // nothing is disabled, removed or killed, so all counters are kept
	edits        edits
	faults       faults
	faultyModule faultyModule
	files        files
	order        order
	waits        waits
}

// NewRandomStage is where random scripts are played: all have the same files.
func NewRandomStage(t *testing.T) *Stage {
	t.Helper()
	return NewStage(t, txtar.Parse(randomWorld))
}

// Play plays the script.
func (r *Random) Play(t *testing.T, stage *Stage) *Played {
	t.Helper()
	return stage.PlaySteps(t, string(r.Archive.Files[0].Data), 0)
}

// NewRandom draws a script.
func NewRandom(seed uint64) *Random {
	d := &draw{
		rnd: rand.New(rand.NewPCG(seed, 1)), invalid: map[string]bool{},
		world: world{map[string]string{}, map[string]bool{}, map[string]bool{}, false, map[string]bool{}, map[string]bool{}, map[string]bool{}},
	}
	d.edits.draw, d.faults.draw, d.faultyModule.draw, d.files.draw, d.order.draw, d.waits.draw = d, d, d, d, d, d
	const steady, divided = 4, 4 // one script of so many
	d.add("seed %d", seed)
	d.add("jitter %d", seed)
	d.add("allow-purge") // the cluster must become as the directories are
	if d.rnd.IntN(2) == 0 {
		d.add("isolate")
	}
	if d.rnd.IntN(2) == 0 {
		d.add("width 3")
	}
	d.steady = d.rnd.IntN(steady) == 0
	d.faultyModule.begin()
	d.order.begin(seed)
	d.waits.begin(seed)
	var worlds []world
	if d.rnd.IntN(divided) == 0 {
		d.drawSome()
		d.fix()
		d.add("look")
		worlds = append(worlds, d.world.clone())
	}
	d.drawSome()
	d.fix()
	archive := txtar.Parse(randomWorld)
	archive.Comment = fmt.Appendf(nil, "A random script, drawn from seed %d.\n\n", seed)
	script := txtar.File{Name: "script", Data: []byte(strings.Join(d.steps, "\n") + "\n")}
	archive.Files = append([]txtar.File{script}, archive.Files...)
	return &Random{Archive: archive, worlds: append(worlds, d.world)}
}

func (d *draw) add(format string, args ...any) {
	d.steps = append(d.steps, fmt.Sprintf(format, args...))
}

// oneOf draws an element; one that is listed twice is drawn twice as often.
func oneOf[T any](d *draw, list ...T) T { return list[d.rnd.IntN(len(list))] }

// set sets a key of the ConfigMap to something valid; a draw that makes it invalid notes that after
// it.
func (d *draw) set(key, text string) {
	d.world.configMap[key] = text
	delete(d.invalid, key)
	d.add("configmap-set %s %s", key, text)
}

func (d *draw) remove(key string) {
	if _, ok := d.world.configMap[key]; ok {
		delete(d.world.configMap, key)
		delete(d.invalid, key)
		d.add("configmap-remove %s", key)
	}
}

// drawSome adds the steps of a script, or of its half. Few are enough to meet in one reload; a
// failure of a long script is hard to read.
func (d *draw) drawSome() {
	for range 5 + d.rnd.IntN(35) {
		d.draw()
	}
}

// draw adds a step or two. While the operator does not run, other steps are drawn, too: the start
// after them finds their effects.
func (d *draw) draw() {
	if !d.running && d.rnd.IntN(3) == 0 {
		d.start()
		d.advance() // what comes next comes during the first reload
		return
	}
	steps := []func(){
		d.edits.values, d.edits.values, d.edits.values, d.objects, d.objects, d.objects, d.faults.fail, d.faults.fail, d.faults.refuse, d.faults.objectsFail, d.faults.slow, d.faults.helm,
		d.faults.slow, d.faults.config, d.edits.refused, d.edits.replaced, d.advance, d.advance, d.advance, d.advance,
	}
	if !d.steady {
		steps = append(steps, d.edits.flag, d.edits.flag, d.edits.flag, d.files.script, d.files.directory, d.files.awayAndBack, d.files.rename, d.restart, d.kill)
	}
	oneOf(d, slices.Concat(steps, d.faultyModule.steps(), d.order.steps(), d.waits.steps())...)()
}

// edits are those of the ConfigMap.
type edits struct{ *draw }

func (e *edits) values() {
	e.number++
	switch key := oneOf(e.draw, "global", "a", "b", "c", "d", "e", "f"); {
	case e.rnd.IntN(5) == 0:
		e.remove(key)
	case key == "global":
		e.set(key, fmt.Sprintf("x: %d", e.number))
	default:
		e.set(key, fmt.Sprintf("size: %d", e.number))
	}
}

func (e *edits) flag() {
	key := oneOf(e.draw, "a", "b", "c", "d", "e", "f") + "Enabled"
	if e.rnd.IntN(4) == 0 {
		e.remove(key)
		return
	}
	e.set(key, oneOf(e.draw, "true", "false"))
}

// refused makes the ConfigMap invalid; it is not accepted before it is fixed.
func (e *edits) refused() {
	if !e.running {
		return
	}
	key, text := "b", "size: many"
	switch e.rnd.IntN(4) {
	case 0, 1:
		key, text = oneOf(e.draw, "aEnabled", "eEnabled"), "perhaps"
	case 2:
		if !e.files.movedD { // else it may be accepted, because d is not enabled
			key, text = "d", invalidD
		}
	}
	e.set(key, text)
	e.invalid[key] = true
}

// invalidD is a section of d, which a global hook enables, that does not fit.
const invalidD = "size: many"

// replaced deletes the ConfigMap and creates it again, with anything in between but a restart. A
// content that is refused is not deleted: a hook that saves values would bring back the last
// valid one.
func (e *edits) replaced() {
	if !e.running || len(e.invalid) > 0 {
		return
	}
	e.add("configmap-away")
	for range e.rnd.IntN(3) {
		oneOf(e.draw, e.advance, e.objects, e.faults.fail, e.faults.slow)()
	}
	e.add("configmap-back")
}

// fix removes what makes the ConfigMap invalid.
func (e *edits) fix() {
	for _, key := range slices.Sorted(maps.Keys(e.invalid)) {
		e.remove(key)
	}
}

func (d *draw) objects() {
	name := oneOf(d, "one", "two", "three")
	object, set := "Pod d/"+name, d.world.pods
	if d.rnd.IntN(3) == 0 {
		object, set = "Node "+name, d.world.nodes
	}
	if set[name] {
		delete(set, name)
		d.add("delete %s", object)
		return
	}
	set[name] = true
	d.add("object %s", object)
}

// faults are hooks, patches of objects and Helm that fail, or take their time.
type faults struct{ *draw }

// hook draws one, by the name that it has now; its module may be disabled or its directory removed.
func (f *faults) hook() string { return f.named(oneOf(f.draw, f.allHooks()...)) }

// allHooks are the hooks that faults may happen to, and the enabled script, by the first names of
// their directories.
func (d *draw) allHooks() []string {
	return append(d.faultyModule.hooks(), "g.sh", "tick.sh", "010-a/hooks/h.sh", "010-b/hooks/h.sh", "010-b/hooks/side.sh", "020-c/hooks/h.sh", "030-d/hooks/h.sh", "c/enabled")
}

// named is a hook by the name that the directory of its module has now. An enabled script is named
// by its module, whose name does not change.
func (d *draw) named(hook string) string {
	dir, rest, ok := strings.Cut(hook, "/")
	if !ok {
		return hook
	}
	return d.world.now(dir) + "/" + rest
}

// now is the name that the directory of a module has now.
func (w world) now(dir string) string {
	if w.renamed[dir] {
		return secondName(dir)
	}
	return dir
}

// secondName is another name for the directory of a module, which gives it another place.
func secondName(dir string) string { return dir[:2] + "5" + dir[3:] }

// config lets the question for the configuration of a hook fail or last.
func (f *faults) config() {
	hook := f.named(oneOf(f.draw, "010-a/hooks/h.sh", "010-b/hooks/h.sh", "020-c/hooks/h.sh", "030-d/hooks/h.sh"))
	if f.rnd.IntN(2) == 0 {
		f.add("fail-config %s %d", hook, 1+f.rnd.IntN(4))
		return
	}
	f.add("slow-config %s %s", hook, oneOf(f.draw, 0, 200*time.Millisecond, 2*time.Second, 20*time.Second))
}

// files are the directories of modules, which people remove, restore and rename.
type files struct {
	*draw
	// movedD: the directory of d was away, or had another name. Then it is not known whether d is
	// enabled when the ConfigMap changes, and so whether invalid values of d are refused.
	movedD bool
}

// rename gives the directory of a module its second name, or its first one again.
func (f *files) rename() {
	dir := oneOf(f.draw, "010-a", "010-b", "020-c", "030-d", "040-e")
	f.movedD = f.movedD || dir == directoryOf("d")
	switch {
	case f.world.gone[dir]:
	case f.world.renamed[dir]:
		delete(f.world.renamed, dir)
		f.add("rename modules/%s modules/%s", secondName(dir), dir)
	default:
		f.world.renamed[dir] = true
		f.add("rename modules/%s modules/%s", dir, secondName(dir))
	}
}

func (f *faults) fail() { f.add("fail %s %d", f.hook(), 1+f.rnd.IntN(4)) }

// refuse lets a hook ask for what cannot be right.
func (f *faults) refuse() {
	if hook := f.hook(); !strings.HasSuffix(hook, "/enabled") {
		f.add("refuse %s %d %s", hook, 1+f.rnd.IntN(2), oneOf(f.draw, "delete", "kind", "namespace"))
	}
}

func (f *faults) objectsFail() { f.add("fail-objects %d", 1+f.rnd.IntN(4)) }

func (f *faults) slow() {
	f.add("slow %s %s", f.hook(), oneOf(f.draw, 0, 200*time.Millisecond, 2*time.Second, 7*time.Second, 40*time.Second))
}

func (f *faults) helm() {
	name := oneOf(f.draw, "a", "b", "c", "e", "f")
	if f.rnd.IntN(2) == 0 {
		f.add("fail-helm %s %d", name, 1+f.rnd.IntN(3))
		return
	}
	f.add("slow-helm %s %s", name, oneOf(f.draw, 0, 3*time.Second, 30*time.Second))
}

// script changes the answer of the enabled script of c.
func (f *files) script() {
	f.world.scriptOff = !f.world.scriptOff
	f.writeScript()
}

// writeScript writes the enabled script as the world has it, also after the directory was restored
// from the archive.
func (f *files) writeScript() {
	file := "on"
	if f.world.scriptOff {
		file = "off"
	}
	if !f.world.gone["020-c"] {
		f.add("write modules/%s/enabled %s", f.world.now("020-c"), file)
	}
}

func (f *files) directory() {
	f.moveDirectory(oneOf(f.draw, "010-a", "010-b", "020-c", "030-d", "040-e", "050-f"))
}

// awayAndBack removes a directory, and restores it while its release is still being purged.
func (f *files) awayAndBack() {
	dir := oneOf(f.draw, "010-a", "010-b", "020-c", "040-e")
	if f.world.gone[dir] || !f.running {
		return
	}
	f.add("fail-helm %s %d", dir[4:], 1+f.rnd.IntN(3))
	for range 2 {
		f.moveDirectory(dir)
		f.number++
		f.set("global", fmt.Sprintf("x: %d", f.number))
		f.advance()
		f.add("slow-helm %s 30s", dir[4:])
		f.advance()
	}
}

// moveDirectory removes the directory of a module, or restores it.
func (f *files) moveDirectory(dir string) {
	f.movedD = f.movedD || dir == directoryOf("d")
	if f.world.gone[dir] {
		delete(f.world.gone, dir)
		f.add("restore modules/%s", dir)
		if dir == "020-c" {
			f.writeScript()
		}
	} else {
		f.world.gone[dir] = true
		f.add("remove modules/%s", f.world.now(dir))
		delete(f.world.renamed, dir)
	}
}

func (d *draw) start() {
	d.edits.fix() // it refuses to start otherwise
	d.running = true
	d.add("start")
}

func (d *draw) restart() {
	if d.running && d.rnd.IntN(2) == 0 {
		d.running = false
		d.add("stop")
	}
}

// kill ends the operator in the middle of what it does.
func (d *draw) kill() {
	if d.running {
		d.running = false
		d.add("kill")
	}
}

func (d *draw) advance() {
	longest := oneOf(d, 100, 1000, 20_000) // in the middle of a hook, or of the waiting after it
	d.add("advance %s", time.Duration(1+d.rnd.IntN(longest))*time.Millisecond)
}

// fix ends all faults and causes a last reload, which finds the directories and runs the enabled
// script again. What follows is time enough for the longest delay of retries and Helm hooks.
func (d *draw) fix() {
	for _, hook := range d.allHooks() {
		// A fault that was set under a name that the directory has no longer must not come back
		// with it.
		for _, name := range slices.Compact([]string{hook, d.named(hook)}) {
			d.add("fail %s 0", name)
			d.add("refuse %s 0 kind", name)
			d.add("slow %s 0s", name)
			d.add("fail-config %s 0", name)
			d.add("slow-config %s 0s", name)
		}
	}
	d.add("fail-objects 0")
	for _, release := range []string{"a", "b", "c", "e", "f"} {
		d.add("fail-helm %s 0", release)
		d.add("slow-helm %s 0s", release)
	}
	d.faultyModule.end()
	d.edits.fix()
	if !d.running {
		d.start()
	}
	d.waits.end()
	d.order.end()
	if !d.steady || !d.order.begun { // else flags and time must do
		d.number++
		d.set("global", fmt.Sprintf("x: %d", d.number))
	}
	d.add("advance 5m")
	d.add("calm 1s") // a schedule may just tick
	d.add("show")
}
