// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// fakeAPI is an API server with just the resources that the probe uses, and with faults that can be switched on.
type fakeAPI struct {
	server *httptest.Server

	mu         sync.Mutex
	revision   int64
	namespaces map[string]bool
	configMaps map[string]*corev1.ConfigMap
	events     map[string]*corev1.Event
	history    []historyEntry
	changed    chan struct{}

	requests    atomic.Int64
	connections atomic.Int64

	// beforeWrite, when set, is called with each write of a ConfigMap or an Event before it is carried out.
	beforeWrite atomic.Pointer[func(r *http.Request)]
	// onWrite may answer a write of a ConfigMap by itself. Its result reports whether it did.
	onWrite func(w http.ResponseWriter, configMap *corev1.ConfigMap) bool
	// forget makes an acknowledged write vanish.
	forget func(configMap *corev1.ConfigMap) bool
	// conflicts is how many updates of ConfigMaps were refused because they were made of another revision.
	conflicts atomic.Int64
	// onRead may change what a read answers.
	onRead func(configMap *corev1.ConfigMap)
	// deliveries tells how often a watch delivers an entry: 0 loses it, 2 duplicates it.
	deliveries func(watch int64, entry int64) int
	// expired lets watches that resume fail with 410.
	expired atomic.Bool
	// endWatches is closed and replaced to end all watches in an orderly way.
	endWatches chan struct{}
	watches    atomic.Int64
	// following is how many watches have begun to follow, those that have ended since included.
	following atomic.Int64
	// gone is how many watches each connection was refused with 410.
	gone map[string]int
	// identity is what was created for the probe's own credentials, and refuse what of it must not be.
	identity []string
	refuse   string
	// writers are the credentials that came with writes.
	writers map[string]bool
	// pagers are those that came with the objects that lists go through.
	pagers map[string]bool
	// hangUps is how many reads on connections that served a request before end without an answer.
	hangUps atomic.Int64
	// others are the objects that are neither ConfigMaps nor Events, and what has happened to them (fakekinds_test.go).
	others otherObjects
	// refuseIf answers requests with an error. Its result reports whether it does.
	refuseIf atomic.Pointer[func(r *http.Request) bool]
	// cutReads and cutWatches are how many reads and watches end without an answer, on whatever connection.
	cutReads, cutWatches atomic.Int64
}

// connectionKey is the key of the number of requests that the connection of a request has served.
type connectionKey struct{}

type historyEntry struct {
	revision int64
	kind     string
	object   *corev1.ConfigMap
}

func newFakeAPI(http2 bool) *fakeAPI {
	f := &fakeAPI{
		revision:   100,
		namespaces: map[string]bool{},
		configMaps: map[string]*corev1.ConfigMap{},
		events:     map[string]*corev1.Event{},
		writers:    map[string]bool{},
		pagers:     map[string]bool{},
		gone:       map[string]int{},
		changed:    make(chan struct{}),
		endWatches: make(chan struct{}),
		others:     newOtherObjects(),
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = http2
	f.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, &atomic.Int64{})
	}
	f.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			f.connections.Add(1)
		}
	}
	f.server.StartTLS()
	return f
}

func (f *fakeAPI) port() string {
	_, port, err := net.SplitHostPort(f.server.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	return port
}

func (f *fakeAPI) endAllWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.endWatches)
	f.endWatches = make(chan struct{})
}

// goneAt returns how many connections have had a watch refused with 410.
func (f *fakeAPI) goneAt() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.gone)
}

func (f *fakeAPI) namespaceCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.namespaces)
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func answerStatus(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	answer(w, int(code), &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Reason:   reason,
		Code:     code,
		Message:  string(reason),
	})
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests.Add(1)
	again := r.Context().Value(connectionKey{}).(*atomic.Int64).Add(1) > 1
	if f.cut(r) || again && r.Method == http.MethodGet && f.hangUps.Add(-1) >= 0 {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if refuses := f.refuseIf.Load(); refuses != nil && (*refuses)(r) {
		answerStatus(w, 500, metav1.StatusReasonInternalError)
		return
	}
	written := r.Method != http.MethodGet && r.Header.Get("Authorization") == "Bearer "+loadToken
	if before := f.beforeWrite.Load(); before != nil && written {
		(*before)(r)
	}
	switch {
	case r.Method == http.MethodPost && slices.Contains(identityResources, parts[len(parts)-1]):
		f.serveIdentity(w, r, parts[len(parts)-1])
	case len(parts) >= 3 && len(parts) <= 4 && parts[2] == "namespaces":
		f.serveNamespace(w, r, parts)
	case len(parts) >= 5 && parts[4] == "events":
		f.serveEvents(w, r)
	case len(parts) >= 5 && parts[4] == "configmaps" && r.URL.Query().Get("watch") != "":
		f.serveWatch(w, r)
	case len(parts) >= 5 && parts[4] == "configmaps":
		name := ""
		if len(parts) > 5 {
			name = parts[5]
		}
		f.serveConfigMaps(w, r, name)
	default:
		f.serveOthers(w, r, parts)
	}
}

// cut reports whether the connection of the request is to end without an answer.
func (f *fakeAPI) cut(r *http.Request) bool {
	named := len(strings.Split(strings.Trim(r.URL.Path, "/"), "/")) > 5
	switch {
	case r.Method != http.MethodGet:
		return false
	case r.URL.Query().Get("watch") != "":
		cuts := &f.cutWatches
		if informs(r) {
			cuts = &f.others.cutWatches
		}
		return cuts.Add(-1) >= 0
	}
	return named && f.cutReads.Add(-1) >= 0
}

// identityResources are what the probe gets its own credentials by, with the token as the last one.
var identityResources = []string{"serviceaccounts", "roles", "rolebindings", "token"}

// loadToken is the only credential that the fake takes for load.
const loadToken = "token-of-the-probe"

func (f *fakeAPI) serveIdentity(w http.ResponseWriter, r *http.Request, resource string) {
	if f.refuse == resource {
		answerStatus(w, 403, metav1.StatusReasonForbidden)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		answerStatus(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.identity = append(f.identity, resource)
	if resource == "roles" {
		f.others.role = &rbacv1.Role{}
		decodeBody(body, f.others.role)
	}
	if resource != "token" {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
		return
	}
	answer(w, 201, &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Status:   authenticationv1.TokenRequestStatus{Token: loadToken},
	})
}

func (f *fakeAPI) serveNamespace(w http.ResponseWriter, r *http.Request, parts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Method {
	case http.MethodPost:
		namespace := &corev1.Namespace{}
		decode(r, namespace)
		f.namespaces[namespace.Name] = true
		answer(w, 201, namespace)
	case http.MethodDelete:
		if !f.namespaces[parts[3]] {
			answerStatus(w, 404, metav1.StatusReasonNotFound)
			return
		}
		delete(f.namespaces, parts[3])
		answer(w, 200, &corev1.Namespace{})
	}
}

func (f *fakeAPI) serveEvents(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodPost {
		event := &corev1.Event{}
		decode(r, event)
		f.events[event.Name] = event
		answer(w, 201, event)
		return
	}
	list := &corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
	for _, event := range f.events {
		list.Items = append(list.Items, *event)
	}
	answer(w, 200, list)
}

func (f *fakeAPI) serveConfigMaps(w http.ResponseWriter, r *http.Request, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		if name == "" {
			f.listConfigMaps(w, r)
			return
		}
		configMap, ok := f.configMaps[name]
		if !ok {
			answerStatus(w, 404, metav1.StatusReasonNotFound)
			return
		}
		configMap = configMap.DeepCopy()
		if f.onRead != nil {
			f.onRead(configMap)
		}
		answer(w, 200, configMap)

	case http.MethodDelete:
		f.deleteConfigMap(w, name)

	case http.MethodPatch:
		f.patchConfigMap(w, r, name)

	case http.MethodPost, http.MethodPut:
		configMap := &corev1.ConfigMap{}
		decode(r, configMap)
		if strings.HasPrefix(configMap.Name, "page-") {
			f.pagers[r.Header.Get("Authorization")] = true
		} else {
			f.writers[r.Header.Get("Authorization")] = true
		}
		if f.onWrite != nil && f.onWrite(w, configMap) {
			return
		}
		kind, current := "ADDED", f.configMaps[configMap.Name]
		if r.Method == http.MethodPut {
			kind = "MODIFIED"
			if current == nil || current.ResourceVersion != configMap.ResourceVersion {
				f.conflicts.Add(1)
				answerStatus(w, 409, metav1.StatusReasonConflict)
				return
			}
		}
		f.store(kind, configMap)
		answer(w, 200, configMap)
	}
}

// store is called with the lock held.
func (f *fakeAPI) store(kind string, configMap *corev1.ConfigMap) {
	f.revision++
	configMap.ResourceVersion = strconv.FormatInt(f.revision, 10)
	if f.forget != nil && f.forget(configMap) {
		return
	}
	f.configMaps[configMap.Name] = configMap.DeepCopy()
	f.history = append(f.history, historyEntry{revision: f.revision, kind: kind, object: configMap.DeepCopy()})
	close(f.changed)
	f.changed = make(chan struct{})
}

// refusesWatch answers a watch that is not to begin. It returns the number of the watch, which is 0 for an informer.
func (f *fakeAPI) refusesWatch(w http.ResponseWriter, r *http.Request) (number int64, refused bool) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		// As an older API server does: the informer lists then.
		answerStatus(w, 422, metav1.StatusReasonInvalid)
		return 0, true
	}
	if !informs(r) {
		number = f.watches.Add(1)
	}
	if !f.expired.Load() {
		return number, false
	}
	answerStatus(w, 410, metav1.StatusReasonExpired)
	f.mu.Lock()
	defer f.mu.Unlock()
	if number > 0 {
		f.gone[r.RemoteAddr]++
	}
	return number, true
}

func (f *fakeAPI) serveWatch(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	if err != nil && r.URL.Query().Get("sendInitialEvents") == "" {
		answerStatus(w, 400, metav1.StatusReasonBadRequest)
		return
	}
	number, refused := f.refusesWatch(w, r)
	if refused {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher := w.(http.Flusher)
	flusher.Flush()

	f.mu.Lock()
	end, deliveries := f.endWatches, f.deliveries
	f.mu.Unlock()
	if number > 0 {
		f.following.Add(1)
	}
	selected := selectorOf(r)
	for next := 0; ; {
		f.mu.Lock()
		entries, changed := f.history[next:], f.changed
		next = len(f.history)
		f.mu.Unlock()
		for _, entry := range entries {
			times := 1
			if deliveries != nil {
				times = deliveries(number, entry.revision)
			}
			if entry.revision <= from || !selected.Matches(labels.Set(entry.object.Labels)) {
				continue
			}
			for range times {
				_ = json.NewEncoder(w).Encode(map[string]any{"type": entry.kind, "object": withKind(entry.object)})
			}
		}
		flusher.Flush()
		select {
		case <-changed:
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func withKind(configMap *corev1.ConfigMap) *corev1.ConfigMap {
	configMap = configMap.DeepCopy()
	configMap.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	return configMap
}

func decode(r *http.Request, into runtime.Object) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	decodeBody(body, into)
}

// decodeBody takes JSON and protobuf.
func decodeBody(body []byte, into runtime.Object) {
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into); err != nil {
		panic(err)
	}
}

// fakeDNS answers A questions over UDP.
type fakeDNS struct {
	server    *dns.Server
	address   string
	questions atomic.Int64
	// lost is how many of the first questions get no answer.
	lost atomic.Int64

	mu      sync.Mutex
	records map[string][]string
	ttl     time.Duration
	rcode   int
}

func newFakeDNS() *fakeDNS {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	f := &fakeDNS{address: conn.LocalAddr().String(), records: map[string][]string{}, ttl: time.Minute}
	started := make(chan struct{})
	f.server = &dns.Server{PacketConn: conn, Handler: f, NotifyStartedFunc: func() { close(started) }}
	go func() {
		defer GinkgoRecover()
		Expect(f.server.ActivateAndServe()).To(Succeed())
	}()
	<-started
	return f
}

func (f *fakeDNS) set(name string, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[dns.Fqdn(name)] = values
}

func (f *fakeDNS) setRcode(rcode int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rcode = rcode
}

// ServeDNS answers with an alias for values that are no address.
func (f *fakeDNS) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	if f.questions.Add(1) <= f.lost.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := new(dns.Msg).SetReply(question)
	name := question.Question[0].Name
	values, ok := f.records[name]
	switch {
	case f.rcode != dns.RcodeSuccess:
		reply.Rcode = f.rcode
	case !ok:
		reply.Rcode = dns.RcodeNameError
	}
	for _, value := range values {
		header := dns.RR_Header{Name: name, Class: dns.ClassINET, Ttl: uint32(f.ttl.Seconds())}
		if ip := net.ParseIP(value); ip != nil {
			header.Rrtype = dns.TypeA
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: ip})
		} else {
			header.Rrtype = dns.TypeCNAME
			reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: header, Target: dns.Fqdn(value)})
		}
	}
	_ = w.WriteMsg(reply)
}
