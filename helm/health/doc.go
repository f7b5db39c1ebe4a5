// Package health assesses the objects of releases by the rules that tools of Kubernetes share
// (kstatus): a Deployment is current when its replicas are available, a Job when it has completed,
// a custom resource by its conditions (H25).
//
// [Of] assesses one object. A [Follower] keeps the assessments of many up to date: a watch of their
// metadata names the changed objects, and the follower reads these, a few at a time, and keeps
// the state and a message of each. Watches of whole objects would keep all of them in memory.
package health
