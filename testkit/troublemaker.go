package testkit

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Module f of random scripts is the troublemaker. Its chart deploys a ConfigMap, now and then with
// another text at each upgrade, and a hook of it writes what it reads there to the values. Another hook
// touches with kubectl the object that it watches, one makes a list longer at each event, and one
// takes away a value that the chart requires. The operator may not always read what they watch.
//
// It is a part of half of the scripts, and of those that switch it on themselves.

// trouble is what module f does at this step of a script in the making.
type trouble struct {
	begun     bool
	chance    bool
	touched   bool // there is an object for the hook that touches it
	unneeded  bool // there is an object that makes a hook take a required value away
	forbidden bool
}

func (t trouble) hooks() (list []string) {
	if !t.begun {
		return nil
	}
	for _, name := range strings.Fields("allow grow need see services touch") {
		list = append(list, "050-f/hooks/"+name+".sh")
	}
	return list
}

func (d *draw) beginTrouble() {
	d.add("deploys f")
	if d.trouble.begun = d.rnd.IntN(2) == 0; d.trouble.begun {
		d.add("slow-crds 0s")
		d.set("fEnabled", "true")
	}
}

// troubles are the steps that module f adds to those that are drawn.
func (d *draw) troubles() []func() {
	if !d.trouble.begun {
		return nil
	}
	return []func(){d.chance, d.touch, d.touch, d.services, d.services, d.forbid, d.unneeded, d.maintenance, d.objects, d.failObjects, d.crds}
}

// chance lets the chart render by chance, or no longer, or lets its next upgrade wait for that.
func (d *draw) chance() {
	switch {
	case d.rnd.IntN(4) == 0:
		d.add("pace f %s", oneOf(d, time.Second, 10*time.Second))
	case d.trouble.chance:
		d.trouble.chance = false
		d.add("settle f")
	default:
		d.trouble.chance = true
		d.add("chance f")
		d.add("slow-helm f %s", oneOf(d, 0, 400*time.Millisecond)) // then its events are not right behind the hook
		d.add("advance %s", oneOf(d, 10*time.Millisecond, 11*time.Second))
	}
}

// touch writes the object that a hook writes at each event of it.
func (d *draw) touch() {
	switch {
	case d.trouble.touched && d.rnd.IntN(4) == 0:
		d.trouble.touched = false
		d.add("delete ConfigMap d/touched")
	default: // also when it is there: it becomes empty again
		d.trouble.touched = true
		d.add("object ConfigMap d/touched")
	}
}

func (d *draw) services() {
	name := oneOf(d, "one", "two", "three")
	if d.world.services[name] {
		delete(d.world.services, name)
		d.add("delete Service d/%s", name)
		return
	}
	d.world.services[name] = true
	d.add("object Service d/%s", name)
}

func (d *draw) forbid() {
	d.trouble.forbidden = !d.trouble.forbidden
	d.add("%s Service", map[bool]string{true: "forbid", false: "permit"}[d.trouble.forbidden])
}

// unneeded takes a value away that the chart requires, or brings it back.
func (d *draw) unneeded() {
	d.trouble.unneeded = !d.trouble.unneeded
	d.add("%s ConfigMap d/unneeded", map[bool]string{true: "object", false: "delete"}[d.trouble.unneeded])
}

// maintenance ends, and while the CRDs are installed that were due, values change.
func (d *draw) maintenance() {
	d.set("fMaintenance", "NoResourceReconciliation")
	d.advance()
	d.add("slow-crds %s", oneOf(d, 0, 2*time.Second, 10*time.Second))
	d.remove("fMaintenance")
	d.advance()
	d.unneeded()
	d.advance()
	if d.rnd.IntN(2) == 0 {
		d.unneeded()
	}
}

// crds: those of the module are wrong from now on, or right.
func (d *draw) crds() {
	d.add("%s f", oneOf(d, "refuse-crds", "accept-crds"))
}

// endTrouble brings module f to rest.
func (d *draw) endTrouble() {
	if d.trouble.chance {
		d.trouble.chance = false
		d.add("settle f")
	}
	if d.trouble.touched {
		d.trouble.touched = false
		d.add("delete ConfigMap d/touched")
	}
	if d.trouble.unneeded {
		d.unneeded()
	}
	if d.trouble.forbidden {
		d.forbid()
	}
	if d.trouble.begun {
		d.add("slow-crds 0s")
		d.add("accept-crds f")
	}
}

// troubleValues are what hooks of module f must have written in the end: the chart's text, which depends on
// the size, and what they have counted. The list is as it is, and a check of its own.
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

// restless looks for a hook that runs too often: the operator slows down what goes in circles (K10).
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

// notInList compares a list with the runs of the hook that makes it longer: each run of it has added one
// element, a run that failed none, and the last one is there.
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
