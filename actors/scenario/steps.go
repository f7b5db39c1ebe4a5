package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"addon-operator/messages"
	"addon-operator/values"
)

// step does one step and waits until the operator is idle again.
func (p *play) step(ctx context.Context, place string, s step) error {
	var err error
	switch {
	case s.Expect != nil:
		p.check(ctx, place+".expect", *s.Expect)
		return nil
	case s.Apply != nil:
		for _, object := range s.Apply {
			err = errors.Join(err, p.server.Apply(object))
		}
	case s.Delete != nil:
		err = p.delete(*s.Delete)
	case s.ConfigMap != nil:
		err = p.editConfigMap(s.ConfigMap)
	case s.Tick != "":
		err = p.tick(s.Tick)
	case s.FailHook != nil:
		p.recorder.fail(s.FailHook.Hook, s.FailHook.Times)
	case s.FailHelm != nil:
		p.recorder.failHelm(cmp.Or(s.FailHelm.Module, nameOf(p.scenario.unit.module)), s.FailHelm.Times)
	case s.Advance != "":
		err = p.advance(ctx, s.Advance)
	case s.Retry:
		err = p.retry()
	case s.Restart:
		if err = p.stop(); err == nil {
			return p.start(ctx)
		}
	}
	if err != nil {
		return err
	}
	return p.settle(ctx)
}

func (p *play) delete(r reference) error {
	found, err := p.server.Delete(r.APIVersion, r.Kind, r.Namespace, r.Name)
	if err == nil && !found {
		err = fmt.Errorf("delete: there is no %s", r)
	}
	return err
}

// String names the object.
func (r reference) String() string {
	return strings.TrimSpace(r.Kind + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
}

// editConfigMap changes keys as a person would; null removes one.
func (p *play) editConfigMap(keys tree) error {
	data := map[string]any{}
	for key, text := range p.configMapData() {
		data[key] = text
	}
	for key, value := range keys {
		switch v := value.(type) {
		case nil:
			delete(data, key)
		case string:
			data[key] = v
		default:
			text, err := values.YAML(v)
			if err != nil {
				return err
			}
			data[key] = string(text)
		}
	}
	return p.server.Apply(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": Namespace, "name": configMapName}, "data": data,
	})
}

// tick makes the crontabs fire that a schedule binding with this name has.
func (p *play) tick(name string) error {
	crontabs, names := p.recorder.crontabs()
	if p.operator == nil {
		return errNotRunning
	}
	found := false
	for crontab, bindings := range crontabs {
		if crontab == name || bindings[name] {
			p.operator.Send("schedule", messages.ScheduleFired{Crontab: crontab})
			found = true
		}
	}
	if !found {
		return fmt.Errorf("tick: no hook has a schedule %q; there are %s", name, strings.Join(names, ", "))
	}
	return nil
}

// retry ends the waiting of all failed tasks.
func (p *play) retry() error {
	if p.operator == nil {
		return errNotRunning
	}
	p.operator.Send(messages.GlobalHooks, messages.RetryNow{})
	p.operator.Send(messages.Converge, messages.RetryNow{})
	for _, name := range p.names {
		p.operator.Send("module/"+name, messages.RetryNow{})
	}
	return nil
}
