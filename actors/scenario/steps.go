package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"addon-operator/actors/scenario/match"
	"addon-operator/messages"
	"addon-operator/values"
)

// line translates a step of a scenario to the form that all scripts share, so that the engine has
// one implementation of advance, fail, delete and so on. The schema lets a step have one key only,
// so the order of the cases does not matter. A step such as "retry: false" gets no verb and does
// nothing.
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

// step does one step. Steps that carry data come first; of the others, those that only scenarios
// have come before those of the engine. An expect never ends a play: what it finds are problems, so
// that a later expect shows what else is wrong.
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
	case match.Tree:
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
	if do == nil { // "retry: false" or "restart: false"
		return nil
	}
	return do(ctx, p.Engine, line)
}

// editConfigMap changes keys as a person would; null removes one. A ConfigMap holds only texts, so
// a section that is written as a tree becomes YAML.
func editConfigMap(c *Cluster, keys match.Tree) error {
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

// retry ends the waiting of all failed tasks: it sends RetryNow to each owner of tasks. Owners
// without a failed task ignore it.
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
