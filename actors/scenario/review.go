package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/actors"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// askedBySteps stands for what the API server needs to ask hooks: the steps review and convert ask in its place.
type askedBySteps struct{}

// Apply implements actors.Webhooks.
func (askedBySteps) Apply(context.Context, actors.WantedWebhooks, bool) actors.AppliedWebhooks {
	return actors.AppliedWebhooks{}
}

// owner is whose hooks a step asks: those of the scenario.
func (p *play) owner() string {
	if p.scenario.unit.module == "" {
		return messages.GlobalHooks
	}
	return nameOf(p.scenario.unit.module)
}

// ask asks a hook, and compares its answer. What it has to say is in answer.
func (p *play) ask(
	ctx context.Context, place string, q messages.Review, want map[string]any, answer func(*hooks.Response) (any, error),
) error {
	if p.Operator == nil {
		return errNotRunning
	}
	q.Owner, q.Until, q.Within = p.owner(), time.Now().Add(p.options.StepTimeout), p.options.StepTimeout
	answered := p.Operator.Review(ctx, q)
	text, fails := want["error"].(string)
	switch {
	case answered.Err != nil && !(fails && strings.Contains(answered.Err.Error(), text)):
		p.problems = append(p.problems, fmt.Sprintf("%s: it fails: %v", place, answered.Err))
	case answered.Err == nil && fails:
		p.problems = append(p.problems, fmt.Sprintf("%s.expect.error: it does not fail", place))
	case answered.Err == nil:
		got, err := answer(answered.Response)
		if err != nil {
			return err
		}
		for _, difference := range Difference("", want, got) {
			p.problems = append(p.problems, place+".expect: "+difference)
		}
	}
	return nil
}

// review asks about a write, as the API server does.
func (p *play) review(ctx context.Context, place string, r review) error {
	if r.Operation == "" {
		r.Operation = "CREATE"
	}
	request, err := values.JSON(map[string]any{
		"uid": "review", "operation": r.Operation, "object": r.Object, "oldObject": r.OldObject, "userInfo": r.UserInfo, "dryRun": r.DryRun,
	})
	if err != nil {
		return err
	}
	q := messages.Review{Type: hooks.OnValidating, Name: r.Binding, Request: request, DryRun: r.DryRun}
	if p.mutates(r.Binding) {
		q.Type = hooks.OnMutating
	}
	return p.ask(ctx, place, q, r.Expect, func(a *hooks.Response) (any, error) {
		object, err := values.JSON(r.Object)
		if err == nil {
			object, err = a.Patched(object)
		}
		if err != nil {
			return nil, err
		}
		return asTree(map[string]any{"allowed": a.Allowed, "message": a.Message, "warnings": a.Warnings, "object": json.RawMessage(object)})
	})
}

// convert asks for objects in another version.
func (p *play) convert(ctx context.Context, place string, c conversion) error {
	q := messages.Review{Type: hooks.OnConversion, Name: c.CRD, To: c.To}
	for _, object := range c.Objects {
		text, err := values.JSON(object)
		if err != nil {
			return err
		}
		q.Objects = append(q.Objects, text)
	}
	return p.ask(ctx, place, q, c.Expect, func(a *hooks.Response) (any, error) {
		return asTree(map[string]any{"objects": a.Objects})
	})
}

// mutates reports whether a name is that of a mutating webhook, by what the owner shows of its hooks.
func (p *play) mutates(name string) (found bool) {
	p.Visit(func(path string, status fmt.Stringer) {
		mine := strings.HasSuffix(path, "/"+p.owner())
		is := func(h hooks.Hook) bool { return h.Config.Review(hooks.OnMutating, name) != nil }
		found = found || mine && slices.ContainsFunc(actors.LoadedHooks(status), is)
	})
	return found
}

// asTree is a value as an author would write it.
func asTree(v any) (any, error) {
	text, err := values.Encode(v)
	if err != nil {
		return nil, err
	}
	return values.ParseYAML(text)
}
