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

	"addon-operator/messages/view"
	"addon-operator/values"
)

//go:embed testdata/random.txtar
var randomWorld []byte

// Random is a lifecycle script that was drawn from a seed, with what must hold after it: whatever happens, once all is
// fixed, the operator converges, and the releases are as the files, the ConfigMap and the objects say.
type Random struct {
	Archive *txtar.Archive

	rnd       *rand.Rand
	steps     []string
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

// Play plays the script.
func (r *Random) Play(t *testing.T, stage *Stage) *Played {
	t.Helper()
	return stage.Play(t, string(r.Archive.Files[0].Data), 0)
}

// NewRandom draws a script.
func NewRandom(seed uint64) *Random {
	r := &Random{
		Archive: txtar.Parse(randomWorld), rnd: rand.New(rand.NewPCG(seed, 1)),
		configMap: map[string]string{}, invalid: map[string]bool{}, dirs: directories(), objects: map[string]bool{},
	}
	r.add("seed %d", seed)
	r.add("allow-purge") // the cluster must become as the directories are
	r.add("%s", r.oneOf("isolate", "width 3", "width 1"))
	for range 10 + r.rnd.IntN(35) { // few are enough to meet in one reload; a failure of a long script is hard to read
		r.draw()
	}
	r.fix()
	r.Archive.Comment = fmt.Appendf(nil, "A random script, drawn from seed %d.\n\n", seed)
	script := txtar.File{Name: "script", Data: []byte(strings.Join(r.steps, "\n") + "\n")}
	r.Archive.Files = append([]txtar.File{script}, r.Archive.Files...)
	return r
}

func (r *Random) add(format string, args ...any) {
	r.steps = append(r.steps, fmt.Sprintf(format, args...))
}

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
	steps := []func(){r.values, r.values, r.flag, r.flag, r.refused, r.object, r.object, r.hook, r.hook, r.helm, r.directory, r.end, r.advance, r.advance, r.advance}
	steps[r.rnd.IntN(len(steps))]()
}

// set sets a key of the ConfigMap to something valid.
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

func (r *Random) values() {
	r.number++
	key := r.oneOf("global", "a", "b", "c", "d", "e")
	switch r.rnd.IntN(5) {
	case 0:
		r.remove(key)
	case 1:
		r.set("c", r.oneOf("wanted: true", "wanted: false")) // its enabled script asks for that
	default:
		r.set(key, fmt.Sprintf("size: %d", r.number))
	}
}

func (r *Random) flag() {
	key := r.oneOf("a", "b", "c", "d", "e") + "Enabled"
	if r.rnd.IntN(4) == 0 {
		r.remove(key)
		return
	}
	r.set(key, r.oneOf("true", "false"))
}

// refused makes the ConfigMap invalid; it is not accepted before it is fixed.
func (r *Random) refused() {
	if r.running { // it refuses to start otherwise
		key := r.oneOf("b", "aEnabled")
		r.set(key, map[string]string{"b": "size: many", "aEnabled": "perhaps"}[key])
		r.invalid[key] = true
	}
}

func (r *Random) object() {
	object := r.oneOf("Pod d/one", "Pod d/two", "Node one")
	r.add("%s %s", map[bool]string{true: "delete", false: "object"}[r.objects[object]], object)
	r.objects[object] = !r.objects[object]
}

// randomHooks are those to which faults happen, by module.
func randomHooks() map[string]string {
	return map[string]string{"": "g.sh", "a": "/hooks/h.sh", "b": "/hooks/side.sh", "c": "/hooks/h.sh", "d": "/hooks/h.sh"}
}

// hook lets a hook, its question for its configuration or its object patches fail or last.
func (r *Random) hook() {
	module := r.oneOf("", "a", "b", "c", "d")
	hook := r.dirs[module] + randomHooks()[module]
	switch n := r.rnd.IntN(6); {
	case n == 0:
		r.add("fail-objects %d", 1+r.rnd.IntN(4))
	case n == 1 && module != "": // without a global hook the operator refuses to start
		r.add("fail-config %s %d", hook, 1+r.rnd.IntN(4))
	case n <= 3:
		r.add("fail %s %d", hook, 1+r.rnd.IntN(4))
	default:
		r.add("slow %s %s", hook, r.oneOf("0s", "200ms", "2s", "7s", "40s"))
	}
}

func (r *Random) helm() {
	r.add("%s %s %s", r.oneOf("fail-helm", "slow-helm"), r.oneOf("a", "b", "c", "e"), "")
	last := len(r.steps) - 1
	if strings.HasPrefix(r.steps[last], "fail") {
		r.steps[last] += r.oneOf("1", "2", "3")
	} else {
		r.steps[last] += r.oneOf("0s", "3s", "30s")
	}
}

// directory removes, restores or renames the directory of a module.
func (r *Random) directory() {
	module := r.oneOf("a", "b", "c", "d", "e")
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

// end stops the operator, or kills it in the middle of what it does.
func (r *Random) end() {
	if r.running {
		r.running = false
		r.add("%s", r.oneOf("stop", "kill"))
	}
}

func (r *Random) start() {
	r.repair()
	r.running = true
	r.add("start")
}

func (r *Random) repair() {
	for _, key := range slices.Sorted(maps.Keys(r.invalid)) {
		r.remove(key)
	}
}

func (r *Random) advance() {
	longest := []int{100, 1000, 20_000}[r.rnd.IntN(3)] // in the middle of a hook, or of the waiting after it
	r.add("advance %s", time.Duration(1+r.rnd.IntN(longest))*time.Millisecond)
}

// fix ends all faults and causes a last reload, which finds the directories. What follows is time enough for the longest
// delay of retries.
func (r *Random) fix() {
	r.add("no-faults")
	r.repair()
	if !r.running {
		r.start()
	}
	r.number++
	r.set("global", fmt.Sprintf("size: %d", r.number))
	r.add("advance 5m")
	r.add("calm 1s") // a schedule may just tick
	r.add("show")
}

// Violations lists what does not hold after the script was played. What must be is computed from the files, the
// ConfigMap and the objects alone, whatever happened before.
func (r *Random) Violations(p *Played) []string {
	list := slices.Clone(p.Problems)
	expect := func(what, want, got string) {
		if want != got {
			list = append(list, fmt.Sprintf("%s must be %s, is %s", what, want, got))
		}
	}
	enabled := r.enabled()
	expect("the modules that are enabled", fmt.Sprint(enabled), fmt.Sprint(p.Converge.Enabled))
	expect("converge", view.ConvergeIdle+" true", fmt.Sprintf("%s %t", p.Converge.Phase, p.Converge.Ready))
	for name, phase := range p.Phases {
		want := view.Disabled
		if slices.Contains(enabled, name) {
			want = view.Ready
		}
		expect("phase of "+name, string(want), string(phase))
	}
	for name, queue := range p.Queues {
		expect("queue "+name, "empty", queue)
	}
	for _, b := range p.Monitors.Bindings {
		expect("binding "+b.Owner+" "+b.Hook+"/"+b.Binding, "complete, held 0", fmt.Sprintf("%s, held %d", b.Phase, b.Held))
	}
	wanted := r.releases(enabled)
	for _, name := range keys(wanted, p.Releases) {
		expect("release "+name, wanted[name], p.Releases[name])
	}
	for _, key := range keys(r.configMap, p.ConfigMap) {
		got := p.ConfigMap[key]
		if key == "b" { // its hook saves a value there
			got = strings.TrimSpace(strings.ReplaceAll(got, "saved: true\n", ""))
		}
		expect("key "+key+" of the ConfigMap", r.configMap[key], got)
	}
	return list
}

// enabled follows the flags, and the script of c, in the order of directories (E3).
func (r *Random) enabled() (list []string) {
	for _, name := range strings.Fields("a b c d e") {
		on := name < "e" // d by a global hook, the others by modules/values.yaml
		if flag, ok := r.configMap[name+"Enabled"]; ok {
			on = flag == "true"
		}
		on = on && !(name == "c" && r.configMap["c"] == "wanted: false")
		if on && r.dirs[name] != "" {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(r.dirs[a], r.dirs[b]) })
	return list
}

// releases are the values that must be deployed, as JSON by release: the sections global and that of the module, with
// what hooks write in testdata/random.txtar.
func (r *Random) releases(enabled []string) map[string]string {
	count := func(kind string) (n int64) {
		for object, exists := range r.objects {
			if exists && strings.HasPrefix(object, kind) {
				n++
			}
		}
		return n
	}
	out := map[string]string{}
	hooks := map[string]map[string]any{
		"a": {"started": int64(1), "pods": count("Pod"), "found": int64(1)},
		"b": {"saved": true, "pods": count("Pod")},
		"c": {}, "e": {},
	}
	for _, name := range enabled {
		written, hasChart := hooks[name]
		if !hasChart {
			continue
		}
		static := map[string]any{}
		if name == "e" {
			static["size"] = int64(7)
		}
		all := map[string]any{
			"global": values.Merge(map[string]any{"zone": "a"}, r.section("global"), map[string]any{"nodes": count("Node"), "late": int64(1)}),
			name:     values.Merge(static, r.section(name), written),
		}
		text, err := values.JSON(all)
		if err != nil {
			text = []byte(err.Error())
		}
		out[name] = string(text)
	}
	return out
}

// section is a section of the ConfigMap as a person wrote it; an empty one if there is none.
func (r *Random) section(key string) any {
	tree, err := values.ParseYAML([]byte(r.configMap[key]))
	if err != nil || tree == nil {
		return map[string]any{}
	}
	return tree
}
