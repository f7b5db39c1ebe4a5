package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/helm/health"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// Limits of a tree, for the memory of this command and for its reader: objects of the release, and
// what they own.
const (
	treeRoots = 1000
	treeOwned = 500
)

// treeNode is an object in a tree, with those that name it as their owner.
type treeNode struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// State is a word of kstatus, or Missing for an object that was deleted; Message has the details.
	State   string     `json:"state"`
	Message string     `json:"message,omitempty"`
	Owned   []treeNode `json:"owned,omitempty"`
}

// objectTree is the answer of tree as JSON.
type objectTree struct {
	Module  string     `json:"module"`
	Objects []treeNode `json:"objects"`
	// Unlisted are kinds whose owned objects are not known, and why. Cut is how many objects are
	// left out; AtLeast that there may be more.
	Unlisted []string `json:"notListed,omitempty"`
	Cut      int      `json:"leftOut,omitempty"`
	AtLeast  bool     `json:"mayLackMore,omitempty"`
}

// Tree is the command tree. Only the operator has the list of the objects of a release; the objects that those own are
// read with the kubeconfig of the person, so that the operator needs no permission for it.
func Tree(c *cli.Config) *cobra.Command {
	a, names := &asking{config: c}, &completer{c}
	cmd := &cobra.Command{
		Use: "tree MODULE", Short: "Print the objects of a module's release, what they own, and the state of each",
		Long: `Prints the objects of a module's release and, below each, the objects in the same namespace that name it
as their owner, such as the ReplicaSets of a Deployment and their Pods; with the state of each, by the rules of
kstatus. The operator reports the objects of the release. The others are read with your kubeconfig, because the
operator has no permission to read objects that the charts do not contain; kinds that you may not list are
named. At most 500 owned objects are shown.`,
		Example:           "  addon-operator tree ingress-nginx\n  addon-operator tree ingress-nginx -o json",
		Args:              cli.OneArg("the name of one module, such as 'dns' for 010-dns"),
		ValidArgsFunction: first(names.modules),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repeat(cmd, func(w io.Writer) error {
				tree, err := a.tree(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printData(w, tree, treeTable)
			})
		},
	}
	a.format(cmd, "table", "json", "yaml")
	a.watching(cmd)
	return cmd
}

// tree asks the operator for the objects of the release, and the API server for them and for what
// they own. A module that has no objects yet is a tree without any, and no error.
func (a *asking) tree(ctx context.Context, module string) (objectTree, error) {
	var release struct {
		Module  string
		Objects []messages.MonitoredObject
	}
	body, err := a.page(ctx, "/module/"+url.PathEscape(module)+"/objects", nil)
	if err == nil {
		err = decoded(body, &release)
	}
	if err != nil {
		return objectTree{}, err
	}
	// Only now: without the operator there is nothing to read, and its error is the better one.
	client, err := a.config.Connect()
	if err != nil {
		return objectTree{}, err
	}
	// The name in the answer is that of the module, which may have been asked for by its key.
	tree := objectTree{Module: release.Module, Objects: []treeNode{}, Cut: max(len(release.Objects)-treeRoots, 0)}
	var roots []kube.ObjectName
	for _, o := range release.Objects[:len(release.Objects)-tree.Cut] {
		roots = append(roots, kube.ObjectName{Kind: schema.GroupKind{Group: o.Group, Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name})
	}
	// Owned would read the discovery of the cluster for nothing.
	if len(roots) == 0 {
		return tree, nil
	}
	owned, err := client.Owned(ctx, roots, treeOwned)
	if err != nil {
		return objectTree{}, err
	}
	tree.Unlisted, tree.AtLeast = owned.Unlisted, owned.AtLeast
	// Both kinds of objects that are left out count.
	tree.Cut += owned.Cut
	for _, root := range owned.Roots {
		tree.Objects = append(tree.Objects, nodeOf(root))
	}
	return tree, nil
}

// nodeOf describes an object, and those below it. A kind without a status is current as long as its
// object exists and is not being deleted.
func nodeOf(o *kube.OwnedObject) treeNode {
	n := treeNode{APIVersion: o.APIVersion, Kind: o.Kind.Kind, Namespace: o.Namespace, Name: o.Name, State: health.Current}
	switch {
	case apierrors.IsNotFound(o.Err):
		n.State = "Missing"
	// Forbidden, for example: the others are shown all the same.
	case o.Err != nil:
		n.State, n.Message = health.Unknown, o.Err.Error()
	case o.Object.GetDeletionTimestamp() != nil || health.HasStatus(o.Kind):
		h := health.Of(o.Object)
		n.State, n.Message = h.State, h.Message
	}
	for _, child := range o.Owned {
		n.Owned = append(n.Owned, nodeOf(child))
	}
	return n
}

// treeTable draws the tree in the first column. Objects of the release are not indented, and
// sorted; below them lines show which is the last of its siblings. A namespace is shown where it
// differs from that of the owner.
func treeTable(w io.Writer, body []byte) error {
	var tree objectTree
	if err := decoded(body, &tree); err != nil {
		return err
	}
	var rows [][]string
	var add func(nodes []treeNode, namespace, branch, below string)
	add = func(nodes []treeNode, namespace, branch, below string) {
		for i, n := range nodes {
			// lead is in front of this object, inside in front of those that it owns.
			name, inside := n.Name, below+"│ "
			if n.Namespace != "" && n.Namespace != namespace {
				name = n.Namespace + "/" + name
			}
			lead := below + "├─"
			if i == len(nodes)-1 {
				lead, inside = below+"└─", below+"  "
			}
			// branch is empty for objects of the release only.
			if branch == "" {
				lead, inside = "", ""
			}
			rows = append(rows, []string{lead + n.Kind + " " + name, n.State, cell(w, n.Message, 80)})
			add(n.Owned, cmp.Or(n.Namespace, namespace), "owned", inside)
		}
	}
	slices.SortStableFunc(tree.Objects, func(a, b treeNode) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	add(tree.Objects, "", "", "")
	if err := table(w, "Module "+tree.Module+" has no objects: it has no chart, or no run of Helm has succeeded.", "OBJECT STATE MESSAGE", rows); err != nil {
		return err
	}
	if tree.Cut > 0 || tree.AtLeast {
		least := ""
		if tree.AtLeast {
			least = "at least "
		}
		fmt.Fprintf(notes(w), "\n%s%s left out.\n", least, view.Count(tree.Cut, "more object"))
	}
	if len(tree.Unlisted) > 0 {
		fmt.Fprintln(notes(w), "\nOwned objects of these kinds are unknown:")
		for _, kind := range tree.Unlisted {
			fmt.Fprintln(notes(w), "  "+kind)
		}
	}
	return nil
}
