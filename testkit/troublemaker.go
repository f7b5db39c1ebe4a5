package testkit

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// trouble is what a random script does with module f, the troublemaker. Its chart deploys a
// ConfigMap, sometimes with another text at each upgrade, and a hook of it writes what it reads
// there to the values. Another hook writes with kubectl to the object that it watches, one makes a
// list longer at each event, and one takes away a value that the chart requires. The operator may
// not always read what they watch.
//
// It is a part of half of the scripts; others may enable f by a drawn flag. The fields are what is
// so at this place of the script.
type trouble struct {
	*draw
	begun     bool // the script has this part
	byChance  bool // its chart renders by chance
	touched   bool // there is an object for the hook that touches it
	unneeded  bool // there is an object that makes a hook take a required value away
	forbidden bool
}

// hooks are those of f, to which faults may happen; none if f is not a part of the script.
func (t *trouble) hooks() (list []string) {
	if !t.begun {
		return nil
	}
	for name := range strings.FieldsSeq("allow grow need see services touch") {
		list = append(list, "050-f/hooks/"+name+".sh")
	}
	return list
}

// begin decides whether f is a part of the script. Its object is in the cluster in any case,
// because f may be enabled by a flag.
func (t *trouble) begin() {
	t.add("deploys f")
	if t.begun = t.rnd.IntN(2) == 0; t.begun {
		t.add("slow-crds 0s")
		t.set("fEnabled", "true")
	}
}

// steps are those that module f adds to those that are drawn.
func (t *trouble) steps() []func() {
	if !t.begun {
		return nil
	}
	return []func(){t.render, t.touch, t.touch, t.services, t.services, t.forbid, t.need, t.maintenance, t.objects, t.faults.objectsFail, t.crds}
}

// render lets the chart render by chance, or no longer, or lets its next upgrade wait for that.
func (t *trouble) render() {
	switch {
	case t.rnd.IntN(4) == 0:
		t.add("pace f %s", oneOf(t.draw, time.Second, 10*time.Second))
	case t.byChance:
		t.byChance = false
		t.add("settle f")
	default:
		t.byChance = true
		t.add("chance f")
		t.add("slow-helm f %s", oneOf(t.draw, 0, 400*time.Millisecond)) // then its events are not right behind the hook
		t.add("advance %s", oneOf(t.draw, 10*time.Millisecond, 11*time.Second))
	}
}

// touch writes the object that a hook writes at each event of it.
func (t *trouble) touch() {
	switch {
	case t.touched && t.rnd.IntN(4) == 0:
		t.touched = false
		t.add("delete ConfigMap d/touched")
	default: // also when it is there: it becomes empty again
		t.touched = true
		t.add("object ConfigMap d/touched")
	}
}

func (t *trouble) services() {
	name := oneOf(t.draw, "one", "two", "three")
	if t.world.services[name] {
		delete(t.world.services, name)
		t.add("delete Service d/%s", name)
		return
	}
	t.world.services[name] = true
	t.add("object Service d/%s", name)
}

func (t *trouble) forbid() {
	t.forbidden = !t.forbidden
	t.add("%s Service", map[bool]string{true: "forbid", false: "permit"}[t.forbidden])
}

// need takes a value away that the chart requires, or brings it back: a hook of f does so while the
// object exists.
func (t *trouble) need() {
	t.unneeded = !t.unneeded
	t.add("%s ConfigMap d/unneeded", map[bool]string{true: "object", false: "delete"}[t.unneeded])
}

// maintenance begins and ends, and while the CRDs are installed that were due, values change: what
// was validated before must not be rendered after that (D36).
func (t *trouble) maintenance() {
	t.set("fMaintenance", "NoResourceReconciliation")
	t.advance()
	t.add("slow-crds %s", oneOf(t.draw, 0, 2*time.Second, 10*time.Second))
	t.remove("fMaintenance")
	t.advance()
	t.need()
	t.advance()
	if t.rnd.IntN(2) == 0 {
		t.need()
	}
}

// crds makes those of the module wrong from now on, or right.
func (t *trouble) crds() {
	t.add("%s f", oneOf(t.draw, "refuse-crds", "accept-crds"))
}

// end brings module f to rest.
func (t *trouble) end() {
	if t.byChance {
		t.byChance = false
		t.add("settle f")
	}
	if t.touched {
		t.touched = false
		t.add("delete ConfigMap d/touched")
	}
	if t.unneeded {
		t.need()
	}
	if t.forbidden {
		t.forbid()
	}
	if t.begun {
		t.add("slow-crds 0s")
		t.add("accept-crds f")
	}
}

// troubleValues are what hooks of module f must have written in the end: the chart's text, which
// depends on the size, and what they have counted. The list is taken from what is deployed;
// notInList checks it.
func (w world) troubleValues(deployed map[string]any) map[string]any {
	return map[string]any{
		"need": int64(1), "services": int64(len(w.services)), "list": deployed["list"],
		"seen": []any{sizeIn(map[string]any{"f": w.section("f")}, "f")},
	}
}

// troubles lists what does not hold of module f.
func troubles(p *Played, deployed map[string]any, enabled bool) (list []string) {
	list = append(list, restless(p)...)
	for line := range strings.Lines(p.Trace) { // D36: what is validated is rendered
		if strings.Contains(line, " f {") && strings.Contains(line, "  helm ") && !strings.Contains(line, `"need":1`) {
			list = append(list, "the chart of f was rendered without a value that it requires: "+strings.TrimSpace(line))
		}
	}
	if enabled {
		appended, _ := deployed["list"].([]any)
		list = append(list, notInList(p, appended)...)
	}
	return list
}

// restless looks for a hook that runs too often: the operator slows down what goes in circles
// (K10).
func restless(p *Played) (list []string) {
	const perMinute = 120
	latest := map[string][]time.Time{}
	for _, r := range p.hookRuns {
		all := latest[r.hook]
		for len(all) > 0 && r.at.Sub(all[0]) > time.Minute {
			all = all[1:]
		}
		latest[r.hook] = append(all, r.at)
		if len(all) == perMinute {
			list = append(list, fmt.Sprintf("hook %s ran more than %d times in a minute", r.hook, perMinute))
		}
	}
	return slices.Compact(list)
}

// notInList compares a list with the runs of the hook that makes it longer: each run of it has
// added one element, a run that failed none, and the last one is there. Earlier elements may be
// missing: a restart forgets values. Of a run that was cut the element may be there or not.
func notInList(p *Played, elements []any) (list []string) {
	ran, has := map[string]int{}, map[string]int{}
	for _, e := range elements {
		has[fmt.Sprint(e)]++
	}
	missing := ""
	for _, r := range p.hookRuns {
		if !strings.HasSuffix(r.hook, "-f/hooks/grow.sh") {
			continue
		}
		switch {
		case !r.ok:
		case r.wasCut:
			ran[r.task]++
		default:
			ran[r.task]++
			missing = ""
			if has[r.task] == 0 {
				missing = r.task
			}
		}
	}
	if missing != "" {
		list = append(list, fmt.Sprintf("the last run of the hook grow, in task %s, is not in the values: %v", missing, elements))
	}
	for _, task := range keys(has, ran) {
		if has[task] > ran[task] {
			list = append(list, fmt.Sprintf("task %s is in the values %d times; its hook succeeded %d times", task, has[task], ran[task]))
		}
	}
	return list
}
