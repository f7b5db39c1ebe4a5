package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"addon-operator/messages"
	"addon-operator/values"
)

// step does one step. One such as "retry: false" does nothing. An expect never ends a play: what it finds are
// problems, so that a later expect shows what else is wrong.
func (p *play) step(ctx context.Context, place string, s step) (err error) {
	switch {
	case s.Expect != nil:
		p.check(place+".expect", *s.Expect)
	case s.Apply != nil:
		for _, object := range s.Apply {
			err = errors.Join(err, p.Cluster.Server.Apply(object))
		}
	case s.Delete != nil:
		err = p.Cluster.Delete(*s.Delete)
	case s.ConfigMap != nil:
		err = editConfigMap(p.Cluster, s.ConfigMap)
	case s.Tick != "":
		err = p.tick(s.Tick)
	case s.FailHook != nil:
		p.Faults.Fail(FaultOfHook+s.FailHook.Hook, max(s.FailHook.Times, 1))
	case s.FailHelm != nil:
		p.Faults.Fail(FaultOfHelm+cmp.Or(s.FailHelm.Module, nameOf(p.scenario.unit.module)), max(s.FailHelm.Times, 1))
	case s.Advance != "":
		err = p.advance(ctx, s.Advance)
	case s.Retry:
		for run := range waiting(p.Engine) {
			p.retry(run)
		}
	case s.Restart:
		err = p.restart(ctx)
	}
	return err
}

// editConfigMap changes keys as a person would; null removes one. A ConfigMap holds only texts, so
// a section that is written as a tree becomes YAML.
func editConfigMap(c *Cluster, keys map[string]any) error {
	texts := map[string]*string{}
	for key, value := range keys {
		switch v := value.(type) {
		case nil:
			texts[key] = nil
		case string:
			texts[key] = &v
		default:
			data, err := values.YAML(v)
			if err != nil {
				return err
			}
			text := string(data)
			texts[key] = &text
		}
	}
	return c.ConfigMap.Edit(texts)
}

// tick fires the crontabs of the schedule bindings with this name, or the crontab that is named
// itself. As in a cluster, all bindings that share such a crontab run. A name that no loaded hook
// has is an error: the step would do nothing, and the test could pass without the run that it is
// about.
func (p *play) tick(name string) error {
	if p.Operator == nil {
		return errNotRunning
	}
	var all []string
	found := false
	for crontab, c := range p.recorder.schedules() {
		for _, binding := range c.bindings {
			all = append(all, fmt.Sprintf("%s (%s)", binding, crontab))
		}
		if crontab == name || slices.Contains(c.bindings, name) {
			p.Operator.Send("schedule", messages.ScheduleFired{Crontab: crontab})
			found = true
		}
	}
	if !found {
		slices.Sort(all)
		return fmt.Errorf("tick: no hook has a schedule %q; there are %s", name, strings.Join(slices.Compact(all), ", "))
	}
	return nil
}
