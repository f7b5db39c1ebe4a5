package helm

import (
	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Operation is a part of an Apply that takes time, as metrics and traces name it (I2).
type Operation string

// Operations.
const (
	Template     Operation = "template"      // load the chart and render it
	CheckUpgrade Operation = "check-upgrade" // read the state of the release and look for absent objects
	Upgrade      Operation = "upgrade"       // write: install or upgrade, Helm's hooks included
	// Fallback is what a plain upgrade cannot do: to mark an interrupted revision as failed,
	// to drop a corrupted record, to forget a failed first revision and install over it.
	Fallback Operation = "fallback"
)

// observed calls m.Began when an operation begins; the caller reports how it ended.
func (m Module) observed(o Operation) (ended func(error)) {
	if m.Began == nil {
		return func(error) {}
	}
	return m.Began(o)
}

// operationOf is what a step counts as.
func operationOf(s Step) Operation {
	if s == StepUnlock || s == StepReinstall {
		return Fallback
	}
	return Upgrade
}

// writes reports that the objects of target are about to be written or, when there are none, those
// of original deleted; the caller calls done when that is over. Helm stores the answer of the API
// server in target, which is where done finds the resourceVersion. Several goroutines call it.
func (k *cluster) writes(original, target kube.ResourceList) (done func()) {
	if k.op.writes == nil {
		return func() {}
	}
	var ends []func()
	for _, info := range target {
		written := k.op.writes(objectOfInfo(info))
		ends = append(ends, func() {
			version, _ := meta.NewAccessor().ResourceVersion(info.Object) // none: nothing was written
			written(version)
		})
	}
	if len(target) == 0 {
		for _, info := range original {
			written := k.op.writes(objectOfInfo(info))
			ends = append(ends, func() { written("") })
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}
