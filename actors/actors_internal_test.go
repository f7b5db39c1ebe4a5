package actors

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/addons"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/values"
)

// F18: no actor is spawned while the operator stops; nothing would stop it.
func TestNoModulesWhileStopping(t *testing.T) {
	var p *program
	var spawn *actor.Future
	p = testProgram(func(root *actor.PID, message any) {
		if _, ok := message.(messages.ShutDown); ok { // the question comes right behind it
			spawn = p.Actors.Root.RequestFuture(root, spawnModules{}, time.Minute)
		}
	})
	global, err := values.NewSection(values.GlobalKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &boot{World: p.World, tree: &addons.Tree{}, templates: map[string]*values.Section{values.GlobalKey: global}}
	root, err := p.Spawn(Root, func() actor.Actor { return newOperator(t.Context(), p, b) })
	if err != nil {
		t.Fatal(err)
	}
	p.Send(root, messages.ShutDown{})
	if err := p.Wait(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	got, err := spawn.Result()
	if answer, ok := got.(sectionsAdded); err != nil || !ok || answer.Err == nil {
		t.Errorf("modules were spawned: %v, %v", got, err)
	}
}

// noModuleObjects may not be read when the operator starts.
type noModuleObjects struct{ ModuleObjects }

func (noModuleObjects) Suspended(context.Context) (map[string]bool, error) {
	return map[string]bool{}, apierrors.NewForbidden(schema.GroupResource{}, "", nil)
}

func (noModuleObjects) Watch(context.Context, func(kube.ModuleNews)) {}

// H27, J15: when an operator may read objects of kind Module only later, a person can suspend modules with them.
func TestSuspendedAfterPermission(t *testing.T) {
	p := testProgram(nil)
	p.World.ModuleObjects = noModuleObjects{}
	told := make(chan messages.SuspensionChanged, 1)
	spawnActor(t, p, convergePath, actor.ReceiveFunc(func(ctx actor.Context) {
		if msg, ok := ctx.Message().(messages.SuspensionChanged); ok {
			told <- msg
		}
	}))
	suspended, err := (&boot{World: p.World}).readSuspended(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pid := spawnActor(t, p, objectsPath, newModuleObjects(t.Context(), p, suspended))
	p.Send(pid, modulesSeen{kube.ModuleNews{Set: &kube.ModuleObject{Name: "a", Version: "1", Suspend: true}}})
	if got := <-told; !got.Names["a"] {
		t.Errorf("suspended are %v", got.Names)
	}
}

// H15, M2: when maintenance is over before the first discovery is, the first run of the module knows, and installs
// its CRDs.
func TestThawedDuringTheFirstDiscovery(t *testing.T) {
	p := testProgram(nil)
	m := addons.Module{Name: "a", Key: "a"}
	section, err := values.NewSection("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	modulePID := spawnActor(t, p, modulePath+"a", newModule(p, m, section))
	begins := &boot{tree: &addons.Tree{Modules: []addons.Module{m}}}
	begins.doc.Maintenance = map[string]string{"aMaintenance": "NoResourceReconciliation"}
	pid := spawnActor(t, p, convergePath, newConverge(t.Context(), p, begins))
	p.Send(pid, messages.ConfigChanged{}) // nothing is under maintenance
	askActor[discovery](t, p, pid, getDiscovery{})
	if state := askActor[handed](t, p, modulePID, handOver{}).Known; state.Maintenance != "" {
		t.Errorf("the module is in %+v", state)
	}
}
