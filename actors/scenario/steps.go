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

// line says a step of a scenario in the words of all scripts.
func (p *play) line(place string, s step) Line {
	l := Line{Place: place}
	switch {
	case s.Expect != nil:
		l.Verb, l.Data = "expect", *s.Expect
	case s.Apply != nil:
		l.Verb, l.Data = "apply", s.Apply
	case s.Delete != nil:
		l.Verb, l.Data = "delete", *s.Delete
	case s.ConfigMap != nil:
		l.Verb, l.Data = "configmap", s.ConfigMap
	case s.Tick != "":
		l.Verb, l.Rest = "tick", s.Tick
	case s.FailHook != nil:
		l.Verb, l.Rest = "fail", fmt.Sprintf("%s %d", s.FailHook.Hook, max(s.FailHook.Times, 1))
	case s.FailHelm != nil:
		l.Verb, l.Rest = "fail-helm", fmt.Sprintf("%s %d", cmp.Or(s.FailHelm.Module, nameOf(p.scenario.unit.module)), max(s.FailHelm.Times, 1))
	case s.Advance != "":
		l.Verb, l.Rest = "advance", s.Advance
	case s.Retry:
		l.Verb = "retry"
	case s.Restart:
		l.Verb = "restart"
	}
	return l
}

// step does one step.
func (p *play) step(ctx context.Context, line Line) error {
	switch data := line.Data.(type) {
	case expect:
		p.check(ctx, line.Place+".expect", data)
		return nil
	case trees:
		var err error
		for _, object := range data {
			err = errors.Join(err, p.Cluster.Server.Apply(object))
		}
		return err
	case tree:
		return editConfigMap(p.Cluster, data)
	}
	switch line.Verb {
	case "tick":
		return p.tick(line.Rest)
	case "retry":
		return p.retry()
	case "restart":
		return p.restart(ctx)
	}
	do := Steps()[line.Verb]
	if do == nil { // a step that says false
		return nil
	}
	return do(ctx, p.Engine, line)
}

// editConfigMap changes keys as a person would; null removes one.
func editConfigMap(c *Cluster, keys tree) error {
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

// tick makes the crontabs fire that a schedule binding with this name has.
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

// retry ends the waiting of all failed tasks.
func (p *play) retry() error {
	if p.Operator == nil {
		return errNotRunning
	}
	p.Operator.Send(messages.GlobalHooks, messages.RetryNow{})
	p.Operator.Send(messages.Converge, messages.RetryNow{})
	for _, name := range p.files.names {
		p.Operator.Send("module/"+name, messages.RetryNow{})
	}
	return nil
}
