package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// These limit what Owned reads: objects of each kind and namespace, objects in a page, and requests
// at the same time.
const (
	ownedPerKind = 5000
	ownedPage    = 500
	ownedWidth   = 8
)

// ObjectName names an object. The version of its kind does not matter, and may be empty.
type ObjectName struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// OwnedObject is an object, and those that name it as an owner.
type OwnedObject struct {
	ObjectName
	APIVersion string // as it was read; empty when Err is set and its kind is unknown
	// Object is the object in the API server; nil when it could not be read: then Err is the reason.
	Object *unstructured.Unstructured
	Err    error
	Owned  []*OwnedObject // by kind and name
}

// OwnedTree is the tree of the objects that others own. It may be incomplete: Unlisted and Cut have the reasons.
type OwnedTree struct {
	Roots []*OwnedObject // in the order that was asked for
	// Unlisted are the kinds whose owned objects are unknown, with the reasons; sorted.
	Unlisted []string
	// Cut is how many owned objects are left out, AtLeast that there may be more: a kind has too
	// many objects to read all.
	Cut     int
	AtLeast bool
}

// Owned reads objects and those that they own, directly or through others, in their namespaces, at
// most most of them. Kinds that may not be listed are left out, and named in Unlisted. The API
// server cannot be asked for the objects of an owner, so the metadata of all objects of these
// namespaces is read, in pages, and of the result the whole objects.
func (c *Client) Owned(ctx context.Context, roots []ObjectName, most int) (OwnedTree, error) {
	d, err := c.Discover(ctx)
	if err != nil {
		return OwnedTree{}, err
	}
	o := ownedSearch{client: c, kinds: listed(d.Kinds), children: map[types.UID][]*OwnedObject{}, uids: map[*OwnedObject]types.UID{}, seen: map[types.UID]bool{}, most: most}
	for _, away := range d.Away {
		o.tree.Unlisted = append(o.tree.Unlisted, away.String()+": its API server does not answer")
	}
	var namespaces []string
	for _, r := range roots {
		o.tree.Roots = append(o.tree.Roots, &OwnedObject{ObjectName: r})
		if r.Namespace != "" && !slices.Contains(namespaces, r.Namespace) {
			namespaces = append(namespaces, r.Namespace)
		}
	}
	if err := o.read(ctx, o.tree.Roots); err != nil {
		return OwnedTree{}, err
	}
	for _, r := range o.tree.Roots { // a root that another one owns is not repeated below that
		if r.Object != nil {
			o.seen[r.Object.GetUID()] = true
		}
	}
	if err := o.list(ctx, namespaces); err != nil {
		return OwnedTree{}, err
	}
	// Level by level, because whole objects are read only of what is in the tree, in parallel.
	for level := o.tree.Roots; len(level) > 0; {
		var next []*OwnedObject
		for _, parent := range level {
			next = append(next, o.adopt(parent)...)
		}
		if err := o.read(ctx, next); err != nil {
			return OwnedTree{}, err
		}
		level = next
	}
	slices.Sort(o.tree.Unlisted)
	return o.tree, nil
}

// ownedSearch is one call of Owned. The mutex is for the lists, which run in parallel.
type ownedSearch struct {
	client *Client
	kinds  []kind
	most   int // how many owned objects may still be added

	mu       sync.Mutex
	children map[types.UID][]*OwnedObject // by the owner
	uids     map[*OwnedObject]types.UID   // of the children, known from their metadata
	seen     map[types.UID]bool           // objects that are in the tree already
	tree     OwnedTree
}

// listed are the kinds in their preferred versions that can be listed and watched. Events own
// nothing, and are many.
func listed(lists []*metav1.APIResourceList) (all []kind) {
	known := map[schema.GroupKind]bool{{Kind: "Event"}: true, {Group: "events.k8s.io", Kind: "Event"}: true}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no kind of it can be asked for
		}
		for _, r := range list.APIResources {
			k := kind{version.WithResource(r.Name), r.Kind, r.Namespaced, true}
			if known[k.groupKind()] || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
				continue
			}
			known[k.groupKind()] = true
			all = append(all, k)
		}
	}
	return all
}

// read reads objects whole. One that cannot be read has its error, and does not end the search;
// only the end of ctx does. No lock is needed: each goroutine writes to an object of its own.
func (o *ownedSearch) read(ctx context.Context, objects []*OwnedObject) error {
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(ownedWidth)
	for _, object := range objects {
		i := slices.IndexFunc(o.kinds, func(k kind) bool { return k.groupKind() == object.Kind })
		if i < 0 {
			object.Err = fmt.Errorf("the API server does not serve %s", object.Kind)
			continue
		}
		object.APIVersion = o.kinds[i].apiVersion()
		group.Go(func() error {
			api := o.client.dynamic.Resource(o.kinds[i].resource)
			got, err := api.Namespace(object.Namespace).Get(reading, object.Name, metav1.GetOptions{})
			switch {
			case err == nil:
				object.Object = got
			case ctx.Err() != nil:
				return ctx.Err()
			default:
				object.Err = err
			}
			return nil
		})
	}
	return group.Wait()
}

// list finds what has owners in namespaces. A kind that cannot be listed is noted in Unlisted; only
// the end of ctx is an error.
func (o *ownedSearch) list(ctx context.Context, namespaces []string) error {
	group, listing := errgroup.WithContext(ctx)
	group.SetLimit(ownedWidth)
	for _, k := range o.kinds {
		if !k.namespaced {
			continue
		}
		for _, namespace := range namespaces {
			group.Go(func() error {
				if err := o.listKind(listing, k, namespace); err != nil {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					reason := err.Error()
					if apierrors.IsForbidden(err) {
						reason = "you are not allowed to list them"
					}
					o.mu.Lock()
					defer o.mu.Unlock()
					o.tree.Unlisted = append(o.tree.Unlisted, fmt.Sprintf("%s in %s: %s", k.resource.GroupResource(), namespace, reason))
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// listKind reads the metadata of a kind in a namespace, page by page, until ownedPerKind is
// reached. The lock is not held during requests.
func (o *ownedSearch) listKind(ctx context.Context, k kind, namespace string) error {
	options := metav1.ListOptions{Limit: ownedPage}
	for read := 0; ; {
		page, err := o.client.metadata.Resource(k.resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		o.mu.Lock()
		for i := range page.Items {
			o.found(k, &page.Items[i])
		}
		read += len(page.Items)
		full := page.Continue != "" && read >= ownedPerKind
		o.tree.AtLeast = o.tree.AtLeast || full
		o.mu.Unlock()
		if options.Continue = page.Continue; options.Continue == "" || full {
			return nil
		}
	}
}

// found keeps the name of an object that has owners, once for each owner: adopt takes the first
// that is in the tree. The caller holds the lock.
func (o *ownedSearch) found(k kind, m *metav1.PartialObjectMetadata) {
	for _, owner := range m.OwnerReferences {
		child := &OwnedObject{ObjectName: ObjectName{Kind: k.groupKind(), Namespace: m.Namespace, Name: m.Name}}
		o.uids[child] = m.UID
		o.children[owner.UID] = append(o.children[owner.UID], child)
	}
}

// adopt gives a parent what it owns, and returns that. Each object is added once, so that a cycle
// of owners ends, and as long as there is room.
func (o *ownedSearch) adopt(parent *OwnedObject) []*OwnedObject {
	if parent.Object == nil {
		return nil
	}
	children := o.children[parent.Object.GetUID()]
	slices.SortFunc(children, func(a, b *OwnedObject) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.Name, b.Name))
	})
	for _, child := range children {
		switch {
		case o.seen[o.uids[child]]:
			continue
		case o.most == 0:
			o.tree.Cut++
		default:
			o.most--
			parent.Owned = append(parent.Owned, child)
		}
		o.seen[o.uids[child]] = true
	}
	return parent.Owned
}
