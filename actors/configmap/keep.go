package configmap

import (
	"context"
	"maps"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"addon-operator/actors/shared"
	"addon-operator/kube"
	"addon-operator/supervisor"
)

// keepTimeout bounds one write of the last valid content: others wait for config meanwhile.
const keepTimeout = 10 * time.Second

// kept is what config knows of the last valid contents that are kept over a restart (P3).
type kept struct {
	known  bool // values are what is kept
	values kube.LastValid
	// waits: the last attempt has failed, and the next one comes with keepAgain.
	waits  bool
	delays backoff.BackOff // between attempts that fail; nil after one that did not
}

// keepAgain makes config try once more to keep the last valid contents.
type keepAgain struct{}

// keep stores what is in force where a restart finds it, if it is not there yet (P3). It runs in
// the mailbox of config, so it is short, and a failure is retried by a timer instead of here.
func (k *kept) keep(ctx actor.Context, p *shared.Program, now kube.LastValid) {
	if p.LastValid == nil || k.waits || k.known && k.values.Equal(now) {
		return
	}
	writing, cancel := context.WithTimeout(p.WriteContext, keepTimeout)
	defer cancel()
	if err := p.LastValid.Write(writing, now); err != nil {
		if k.delays == nil {
			k.delays = supervisor.Backoff()
		}
		pause := k.delays.NextBackOff()
		p.Log.Warn("the last valid values cannot be saved, will retry; a restart with an invalid ConfigMap or Secret would end with exit code 1, or use older values", "in", pause, "err", err)
		k.waits = true
		p.SendLater(ctx, pause, keepAgain{})
		return
	}
	k.delays = nil
	k.known, k.values = true, kube.LastValid{Config: maps.Clone(now.Config), Secret: maps.Clone(now.Secret)}
}
