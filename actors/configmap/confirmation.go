package configmap

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/kube"
	"addon-operator/messages"
)

// confirmation is the annotation of the ConfigMap that confirms a purge, as config saw it last.
type confirmation struct {
	program *shared.Program
	value   string
}

// seen notes the annotation of a ConfigMap, valid or not.
func (c *confirmation) seen(ctx actor.Context, value string) {
	if value != c.value {
		c.value = value
		c.send(ctx)
	}
}

// send notifies converge of it.
func (c *confirmation) send(ctx actor.Context) {
	if c.value != "" {
		ctx.Send(c.program.PID(work.ConvergePath), messages.ConfirmPurge{Value: c.value})
	}
}

// remove takes the annotation off the ConfigMap, whose new content it returns. Another value, which
// a person has set since, stays.
func (c *confirmation) remove(value string) (left kube.ConfigMap, ok bool) {
	writing, cancel := context.WithTimeout(c.program.WriteContext, writeTimeout)
	defer cancel()
	left, err := c.program.ConfigMap.RemoveConfirmation(writing, value)
	if err != nil {
		c.program.Log.Warn("the confirmation of a purge cannot be removed; remove the annotation manually, or it is evaluated again after a restart", "annotation", kube.ConfirmPurgeAnnotation, "err", err)
	}
	return left, err == nil
}
