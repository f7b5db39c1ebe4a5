// Package faultproxy stands between a client and a Kubernetes API server and disturbs what they say
// to each other: answers with errors, delays, lost requests, lost answers, watches that are cut or
// expired, a server that cannot be reached. It shows each write before the API server gets it and
// before the client gets the answer, so that a test can end the client at exactly these moments,
// and it knows which watches are open.
//
//	proxy := faultproxy.New(t, cluster.RESTConfig(), seed)
//	kubeconfig := proxy.Kubeconfig(t)
//	proxy.SetRate(0.2) // each fifth request is disturbed
//
// It knows nothing of the operator, and starts no API server: that is devclustertest.
package faultproxy
