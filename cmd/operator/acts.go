package operator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"addon-operator/kube"
	"addon-operator/server"
)

// moduleRequests writes requests to objects of kind Module. Package kube implements it.
type moduleRequests interface {
	Request(ctx context.Context, name, at string, r kube.ModuleRequest) (kube.ModuleObject, error)
}

// actsOf writes the requests that people make on the live page, with the rights of the operator. It
// is nil where store, which is shared.World.ModuleObjects, cannot take requests. A denied request
// is a *server.MayNotError: it is the operator that lacks the right, not the person.
func actsOf(store any, log *slog.Logger) server.Act {
	objects, ok := store.(moduleRequests)
	if !ok {
		return nil
	}
	return func(ctx context.Context, module, act string) (kept bool, err error) {
		yes, no := true, false
		request, known := map[string]kube.ModuleRequest{
			server.ActRun: {Run: true}, server.ActRetry: {Retry: true}, server.ActSuspend: {Suspend: &yes}, server.ActResume: {Suspend: &no},
		}[act]
		if !known {
			return false, fmt.Errorf("bug: there is no request %q", act)
		}
		object, err := objects.Request(ctx, module, time.Now().UTC().Format(time.RFC3339Nano), request)
		if kube.IsDenied(err) {
			return false, &server.MayNotError{Err: fmt.Errorf("the operator is not allowed to write this request: %w; allow it to patch modules.addon-operator.io, as the chart and rbac generate do, or use addon-operator %s %s, which has your permissions", err, act, module)}
		}
		if err != nil {
			return false, err
		}
		log.Info("request for a module received from the live page", "module", module, "request", act)
		return object.Suspend, nil
	}
}
