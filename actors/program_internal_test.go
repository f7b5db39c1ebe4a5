// Package sharedtest is for tests of single actors: a program without a cluster.
package actors

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/kube"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// NewProgram is a program without a cluster. before, if any, is called with each message before its actor handles it.
func testProgram(before func(receiver *actor.PID, message any)) *program {
	log := slog.New(slog.DiscardHandler)
	observe := func(receiver *actor.PID, message any, _ bool) func() {
		if before != nil {
			before(receiver, message)
		}
		return func() {}
	}
	return newProgram(
		supervisor.NewSystem(supervisor.Options{Log: log, Observe: observe}),
		World{Services: Services{Log: log, Metrics: NewMetrics(view.MetricsPrefix)}, ConfigMap: noConfigMap{}},
	)
}

// Spawn starts an actor by this name.
func spawnActor(t *testing.T, p *program, name string, a actor.Actor) *actor.PID {
	t.Helper()
	pid, err := p.Spawn(name, func() actor.Actor { return a })
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// Ask gives a question to an actor and waits for the answer, a minute at most.
func askActor[Answer any](t *testing.T, p *program, to *actor.PID, question any) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := p.Ask(ctx, to, question)
	if err != nil {
		t.Fatal(err)
	}
	answer, ok := got.(Answer)
	if !ok {
		t.Fatalf("%T was answered with %T", question, got)
	}
	return answer
}

// noConfigMap is a ConfigMap that was never written.
type noConfigMap struct{}

func (noConfigMap) Read(context.Context) (kube.ConfigMap, error) { return kube.ConfigMap{}, nil }
func (noConfigMap) Watch(context.Context, func(kube.ConfigMap))  {}
func (noConfigMap) Write(context.Context, map[string]string, map[string]*string) (kube.ConfigMap, error) {
	return kube.ConfigMap{}, nil
}
func (noConfigMap) RemoveConfirmation(context.Context, string) (kube.ConfigMap, error) {
	return kube.ConfigMap{}, nil
}
