package helm

import (
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/kube"

	"addon-operator/helm/kinds"
)

// left are the objects of earlier manifests that target lacks and that belong to the release. Helm compares the new
// manifest with that of the last deployed revision, so it misses objects that only a failed revision since then has
// created. An object that cannot be read is an error, before anything is written: the new record would not list it.
func (k *cluster) left(original, target kube.ResourceList) (kube.ResourceList, error) {
	left := original.Difference(target)
	for _, text := range k.earlier {
		forgotten, err := k.builder.build(text, false)
		var away *kinds.AwayError
		if errors.As(err, &away) || err != nil && isUnavailable(err) {
			return nil, fmt.Errorf("objects of a failed revision: %w", err)
		}
		if err != nil {
			k.op.debug("objects of a failed revision are not searched for: %v", err)
			continue
		}
		for _, info := range forgotten {
			if !left.Contains(info) && !target.Contains(info) {
				left = append(left, info)
			}
		}
	}
	return k.owned(left)
}

// unserved are objects of older manifests whose kinds the API server has in no version, and that target does not have.
func (k *cluster) unserved(target kube.ResourceList) (stay []Object) {
	known := map[Object]bool{}
	for _, info := range target {
		known[k.op.home.live.identity(objectOfInfo(info))] = true
	}
	for _, o := range k.builder.unserved {
		if id := k.op.home.live.identity(o); !known[id] {
			known[id] = true
			stay = append(stay, o)
		}
	}
	return stay
}

// remove deletes objects that have left the chart. Unlike Helm it returns an error if one cannot be deleted: the
// revision has failed then, and the next one finds the object in its record.
func (k *cluster) remove(left kube.ResourceList) (deleted kube.ResourceList, _ error) {
	defer k.writes(left, nil)()
	var errs []error
	for _, info := range left {
		o := objectOfInfo(info)
		if err := k.op.removeLeftover(o); err != nil {
			errs = append(errs, fmt.Errorf("delete %s, which has left the chart: %w", o, err))
			continue
		}
		deleted = append(deleted, info)
	}
	return deleted, errors.Join(errs...)
}

// reportUnserved reports objects that are not deleted, because the API server has their kinds in no version. Nothing lists
// them any more, and they may exist: another version of Kubernetes, or a definition, may serve them again.
func reportUnserved(op *operation, objects []Object) {
	if len(objects) == 0 || op.home.dry != nil {
		return
	}
	var names []string
	for _, o := range objects[:min(len(objects), maxNamedObjects)] {
		names = append(names, fmt.Sprintf("%s (%s)", o, o.GVK.GroupVersion()))
	}
	const what = "objects cannot be deleted, because the API server does not serve their kinds in any version; " +
		"delete them when it does"
	op.log.Warn(what, "objects", names, "count", len(objects))
	if op.home.options.Notify != nil {
		more := ""
		if n := len(objects) - len(names); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		op.home.options.Notify(fmt.Sprintf("release %s: %s: %s%s", op.release, what, strings.Join(names, ", "), more))
	}
}

// maxNamedObjects is how many objects of one operation the log names: a release may have thousands.
const maxNamedObjects = 20

// deleted logs that an object was deleted that has left the chart.
func (op *operation) deleted(o Object) {
	if op.removed++; op.removed <= maxNamedObjects {
		op.log.Info("an object that has left the chart is deleted", "object", o.String())
	}
}

// deletedMore logs how many objects were deleted that the log does not name.
func (op *operation) deletedMore() {
	if more := op.removed - maxNamedObjects; more > 0 {
		op.log.Info("more objects that have left the chart are deleted", "objects", more)
	}
}
