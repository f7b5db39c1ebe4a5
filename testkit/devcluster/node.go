package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// nodeName is the only node of a cluster with --node. It runs no containers: each Pod is placed on
// it, counts as running and ready at once, and one of a Job as succeeded. Claims of volumes count
// as bound, without a volume. The ports of its Pods that kubectl port-forward reaches are those of
// this machine.
const nodeName = "node"

// nodeRetry is the pause after a write that failed.
const nodeRetry = 200 * time.Millisecond

// kubelet plays the parts of the scheduler, of the kubelet of the node, and of a provisioner of
// volumes. It is a controller like the others: informers put the names of changed objects into a
// queue, and one loop brings each object one step closer to what it should be.
type kubelet struct {
	*controllers
	pods, claims cache.SharedIndexInformer
	queue        workqueue.TypedDelayingInterface[work]
	listener     net.Listener // for requests of the API server to the kubelet
	keys         pki
}

// work names an object to look at: a Pod, or a claim of a volume.
type work struct {
	cache.ObjectName
	claim bool
}

// node adds the node and its kubelet.
func (c *controllers) node(keys pki) error {
	listener, err := listenOn(0)
	if err != nil {
		return err
	}
	k := &kubelet{
		listener: listener, keys: keys,
		controllers: c, pods: c.typed.Core().V1().Pods().Informer(), claims: c.typed.Core().V1().PersistentVolumeClaims().Informer(),
		queue: workqueue.NewTypedDelayingQueue[work](),
	}
	for _, informer := range []cache.SharedIndexInformer{k.pods, k.claims} {
		changed := func(object any) {
			if o, ok := object.(metav1.Object); ok {
				k.queue.Add(work{cache.MetaObjectToName(o), informer == k.claims})
			}
		}
		handler := cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	c.add(k.run)
	return nil
}

// run registers the node, and then handles the queue until ctx ends. An object whose write failed
// comes back after a pause, for example when the informer had an old version of it; one that is
// gone does not.
func (k *kubelet) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, k.queue.ShutDown)
	defer stop()
	go k.forwardPorts(ctx)
	for ctx.Err() == nil {
		if err := k.register(ctx); err == nil {
			break
		}
		select {
		case <-time.After(nodeRetry):
		case <-ctx.Done():
		}
	}
	for {
		next, ended := k.queue.Get()
		if ended {
			return
		}
		sync := k.runPod
		if next.claim {
			sync = k.bindClaim
		}
		if err := sync(ctx, next.ObjectName); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "the node looks at it again", "object", next.ObjectName)
			k.queue.AddAfter(next, nodeRetry)
		}
		k.queue.Done(next)
	}
}

// register creates the node, or finds it from an earlier run. Its room is only shown: runPod
// compares nothing with it.
func (k *kubelet) register(ctx context.Context) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1k"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("10k"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
			corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
	nodes := k.client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// Its port is another one after each start.
	port := k.listener.Addr().(*net.TCPAddr).Port
	status := fmt.Appendf(nil, `{"status": {"addresses": [{"type": "InternalIP", "address": %q}], "daemonEndpoints": {"kubeletEndpoint": {"Port": %d}}}}`, loopback, port)
	if _, err := nodes.Patch(ctx, nodeName, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	// The API server gives each new node a taint until a controller has seen it ready.
	_, err := nodes.Patch(ctx, nodeName, types.MergePatchType, []byte(`{"spec": {"taints": null}}`), metav1.PatchOptions{})
	return err
}

// bindClaim has a claim of a volume count as bound, with the capacity that it asks for.
func (k *kubelet) bindClaim(ctx context.Context, name cache.ObjectName) error {
	object, exists, err := k.claims.GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return err
	}
	claim := object.(*corev1.PersistentVolumeClaim).DeepCopy()
	if claim.Status.Phase != corev1.ClaimPending || claim.DeletionTimestamp != nil {
		return nil
	}
	claim.Status.Phase, claim.Status.AccessModes, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.AccessModes, claim.Spec.Resources.Requests
	_, err = k.client.CoreV1().PersistentVolumeClaims(name.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// runPod takes a Pod one step further; the change brings it here again.
func (k *kubelet) runPod(ctx context.Context, name cache.ObjectName) error {
	object, exists, err := k.pods.GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return err
	}
	pod, pods := object.(*corev1.Pod).DeepCopy(), k.client.CoreV1().Pods(name.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		// There is no process to wait for. The precondition spares a new Pod of the same name.
		now := int64(0)
		return pods.Delete(ctx, name.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case len(pod.Spec.SchedulingGates) > 0: // its owner does not want it scheduled yet
		return nil
	case pod.Spec.NodeName == "":
		return pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
		}, metav1.CreateOptions{})
	case pod.Spec.NodeName != nodeName || pod.Status.Phase != corev1.PodPending:
		return nil
	}
	setRunning(pod, metav1.Now())
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// setRunning sets the status of a Pod that runs, or of one that has done its work: one of a Job, or
// one without an owner that is not to be restarted, such as a Helm hook.
func setRunning(pod *corev1.Pod, now metav1.Time) {
	owner := metav1.GetControllerOf(pod)
	done := owner != nil && owner.Kind == "Job" || owner == nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever
	state, ready, reason := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}, corev1.ConditionTrue, ""
	pod.Status.Phase = corev1.PodRunning
	if done {
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		ready, reason, pod.Status.Phase = corev1.ConditionFalse, "PodCompleted", corev1.PodSucceeded
	}
	pod.Status.StartTime = &now
	pod.Status.Conditions = nil
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status, why := ready, reason
		if condition == corev1.PodScheduled || condition == corev1.PodInitialized {
			status, why = corev1.ConditionTrue, ""
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: status, Reason: why, LastTransitionTime: now})
	}
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		started := !done
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: state, Ready: !done, Started: &started, ContainerID: fmt.Sprintf("none://%s/%s", pod.UID, c.Name),
		})
	}
}

// Timeouts of a forwarding: without traffic, and until its streams are open.
const (
	forwardIdle   = time.Hour
	forwardStream = 30 * time.Second
)

// forwarder connects to the ports of Pods. The Pods of the node have no containers, and no network
// of their own: their ports are those of the machine.
type forwarder struct{ dialer net.Dialer }

// forwardPorts serves the kubelet's address, until ctx ends: the forwarding of ports, the only
// request of the API server to a kubelet that makes sense without containers.
func (k *kubelet) forwardPorts(ctx context.Context) {
	routes := http.NewServeMux()
	routes.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, &forwarder{}, r.PathValue("pod"), "", options, forwardIdle, forwardStream, portforward.SupportedProtocols)
	})
	// Streams take connections over, which HTTP/2 does not allow.
	server := &http.Server{Handler: routes, ReadHeaderTimeout: forwardStream, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.ServeTLS(k.listener, k.keys.cert, k.keys.key) // ends with ctx
}

// PortForward implements portforward.PortForwarder. It returns when the server has closed its side
// of the connection; that the client has closed its own is passed on, and the answer still read.
func (f *forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := f.dialer.DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream) // its end is the client's
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}
