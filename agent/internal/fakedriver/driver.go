// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakedriver is a DRA driver for tests of callers of drivers. It records calls, and behaves
// as a test says.
package fakedriver

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/dray-project/dray/agent/internal/sockets"
)

// Driver is a DRA driver that records calls.
type Driver struct {
	dra.UnimplementedDRAPluginServer
	drahealth.UnimplementedDRAResourceHealthServer
	registration.UnimplementedRegistrationServer
	Endpoint string

	// Change the following fields with Set while the driver runs.

	// Versions are the versions that the driver announces. Of the versions of the DRA API, it serves
	// those that it announced when it began to listen.
	Versions []string
	// Refuse has errors for calls for one claim, by "prepare UID" or "unprepare UID".
	Refuse map[string]string
	// Fail is the error of all calls, unless it is empty.
	Fail string
	// Requests are the requests of the two devices of each claim. The defaults are "a" and "b".
	Requests [2][]string
	// Omit is the UID of a claim that responses leave out.
	Omit string
	// Common is a CDI device that all devices have first, unless it is empty.
	Common string
	// During is called while a call is served. call is, for instance, "prepare one two", with claim
	// UIDs. at is "before" or "after" the call took effect.
	During func(call, at string)
	// Health is the health of the devices 0 and 1 of the pool p. It is sent at the start of a
	// stream, and after each call of Report.
	Health [2]drahealth.HealthStatus
	// Message is sent with each health.
	Message string
	// NoHealth has calls for the health fail as those of drivers that report none.
	NoHealth bool
	// Told is the result of the registration.
	Told *registration.RegistrationStatus

	name, folder string
	server       *grpc.Server
	listener     net.Listener

	mutex    sync.Mutex
	calls    []string
	reported chan struct{}   // closed by Report
	prepared map[string]bool // UIDs of claims
}

// Start starts a driver whose sockets are in folder. It applies changes before it serves.
func Start(folder, name string, changes ...func(*Driver)) (*Driver, error) {
	d := &Driver{
		Versions: []string{dra.DRAPluginService}, Refuse: make(map[string]string), Requests: [2][]string{{"a"}, {"b"}}, During: func(string, string) {},
		name: name, folder: folder, reported: make(chan struct{}), prepared: make(map[string]bool),
	}
	for _, change := range changes {
		change(d)
	}
	return d, d.Listen()
}

// Listen serves both APIs on one socket. A stopped driver may listen again.
func (d *Driver) Listen() error {
	d.Endpoint = filepath.Join(d.folder, d.name+".sock")
	if err := sockets.CheckPath(d.Endpoint); err != nil {
		return err
	}
	listener, err := net.Listen("unix", d.Endpoint)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, d)
	if slices.Contains(d.Versions, dra.DRAPluginService) {
		dra.RegisterDRAPluginServer(server, d)
	}
	if slices.Contains(d.Versions, drav1beta1.DRAPluginService) {
		drav1beta1.RegisterDRAPluginServer(server, drav1beta1.V1ServerWrapper{DRAPluginServer: d})
	}
	drahealth.RegisterDRAResourceHealthServer(server, d)
	drahealthv1alpha1.RegisterDRAResourceHealthServer(server, drahealth.V1ServerWrapper{Server: d})
	d.server, d.listener = server, listener
	go func() { _ = server.Serve(listener) }()
	return nil
}

// Stop stops the driver, and removes its socket. Prepared claims remain so.
func (d *Driver) Stop() {
	d.server.Stop()
	_ = d.listener.Close() // the server does not close it before it serves
}

// Kill stops the driver, and leaves its socket, as SIGKILL does.
func (d *Driver) Kill() {
	d.listener.(*net.UnixListener).SetUnlinkOnClose(false)
	d.Stop()
}

// GetInfo implements the registration API.
func (d *Driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: d.name, Endpoint: d.Endpoint, SupportedVersions: d.Versions}, nil
}

// NotifyRegistrationStatus implements the registration API.
func (d *Driver) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.Told = status
	return &registration.RegistrationStatusResponse{}, nil
}

// NodePrepareResources implements the DRA API.
func (d *Driver) NodePrepareResources(_ context.Context, request *dra.NodePrepareResourcesRequest) (*dra.NodePrepareResourcesResponse, error) {
	if fail := d.failure(); fail != nil {
		return nil, fail
	}
	answer := &dra.NodePrepareResourcesResponse{Claims: make(map[string]*dra.NodePrepareResourceResponse)}
	for uid, refused := range d.take("prepare", request.Claims, true) {
		answer.Claims[uid] = &dra.NodePrepareResourceResponse{Error: refused}
		if refused == "" {
			for i, requests := range d.Requests {
				device := &dra.Device{RequestNames: requests, PoolName: "p", DeviceName: strconv.Itoa(i)}
				if d.Common != "" {
					device.CdiDeviceIds = append(device.CdiDeviceIds, d.Common)
				}
				device.CdiDeviceIds = append(device.CdiDeviceIds, d.name+"/claim="+uid+"-"+device.DeviceName)
				answer.Claims[uid].Devices = append(answer.Claims[uid].Devices, device)
			}
		}
	}
	return answer, nil
}

// NodeUnprepareResources implements the DRA API.
func (d *Driver) NodeUnprepareResources(_ context.Context, request *dra.NodeUnprepareResourcesRequest) (*dra.NodeUnprepareResourcesResponse, error) {
	if fail := d.failure(); fail != nil {
		return nil, fail
	}
	answer := &dra.NodeUnprepareResourcesResponse{Claims: make(map[string]*dra.NodeUnprepareResourceResponse)}
	for uid, refused := range d.take("unprepare", request.Claims, false) {
		answer.Claims[uid] = &dra.NodeUnprepareResourceResponse{Error: refused}
	}
	return answer, nil
}

func (d *Driver) failure() error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.Fail == "" {
		return nil
	}
	return status.Error(codes.Internal, d.Fail)
}

// take records a call and its effect, and returns the errors by UID.
func (d *Driver) take(call string, claims []*dra.Claim, prepared bool) map[string]string {
	text := call
	for _, claim := range claims {
		text += " " + claim.Uid
	}
	d.mutex.Lock()
	during := d.During
	d.mutex.Unlock()
	during(text, "before")
	d.mutex.Lock()
	d.calls = append(d.calls, text)
	answers := make(map[string]string)
	for _, claim := range claims {
		if claim.Uid == d.Omit {
			continue
		}
		answers[claim.Uid] = d.Refuse[call+" "+claim.Uid]
		if answers[claim.Uid] == "" {
			d.prepared[claim.Uid] = prepared
		}
	}
	d.mutex.Unlock()
	during(text, "after")
	return answers
}

// Speaking makes a driver announce that it reports health. It is a change for Start.
func Speaking(d *Driver) { d.Versions = append(d.Versions, drahealth.DRAResourceHealthService) }

// SpeakingOlder is Speaking for the health service of Kubernetes 1.36.
func SpeakingOlder(d *Driver) {
	d.Versions = append(d.Versions, drahealthv1alpha1.DRAResourceHealthService)
}

// Report changes the health of the devices, and sends it.
func (d *Driver) Report(devices ...drahealth.HealthStatus) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	copy(d.Health[:], devices)
	close(d.reported)
	d.reported = make(chan struct{})
}

// NodeWatchResources implements the API of device health.
func (d *Driver) NodeWatchResources(_ *drahealth.NodeWatchResourcesRequest, stream drahealth.DRAResourceHealth_NodeWatchResourcesServer) error {
	for {
		d.mutex.Lock()
		health, message, none, reported := d.Health, d.Message, d.NoHealth, d.reported
		d.mutex.Unlock()
		if none {
			return status.Error(codes.Unimplemented, "no health is reported")
		}
		answer := &drahealth.NodeWatchResourcesResponse{}
		for i, name := range []string{"0", "1"} {
			answer.Devices = append(answer.Devices, &drahealth.DeviceHealth{Device: &drahealth.DeviceIdentifier{PoolName: "p", DeviceName: name}, Health: health[i], Message: message})
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-reported:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// Set changes fields of the driver while it runs.
func (d *Driver) Set(change func()) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	change()
}

// Taken returns the calls since the last call of Taken.
func (d *Driver) Taken() []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	out := d.calls
	d.calls = nil
	return out
}

// Holds returns the UIDs of prepared claims.
func (d *Driver) Holds() []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var out []string
	for uid, prepared := range d.prepared {
		if prepared {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}
