// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sysfs finds devices in the Linux kernel's sysfs: PCI display controllers, network
// controllers with their SR-IOV virtual functions, and NVMe drives.
//
//	<root>/sys/bus/pci/devices/*  ─► function ─► display │
//	   class, vendor, driver,                   network  ├─► inventory.Device
//	   physfn, virtfn*, numa_node               nvme     │
//
// The root may be any folder, for tests and containers. Nothing is written. Names of device nodes
// in /dev are derived, without a check that they exist.
//
// # What becomes of a PCI function
//
//	class 03xxxx  type gpu     device nodes /dev/dri/*
//	class 02xxxx  type nic     device nodes /dev/infiniband/uverbs*
//	  a VF of it  type nic-vf  the same, and its network interface (CDI 1.1.0)
//	class 0108xx  type nvme    device nodes /dev/nvme0, /dev/nvme0n1, …
//
// A function bound to vfio-pci has the device nodes of its IOMMU group instead. A function that is
// not bound to a driver is unhealthy, and so is an NVMe controller that is not live.
//
// A NIC and its virtual functions share a counter set. If the NIC is allocated, no virtual function
// can be, and vice versa.
//
// # Attributes
//
// The standard attributes pciBusID, pcieRoot and numaNode come from the topology. In the driver's
// domain there are type, as above, vendorID, deviceID, kernelDriver; for networks interface, rdmaDevice, totalVFs,
// physicalFunction, virtualFunction; for NVMe model, serial, firmware, and hostUse if there are
// partitions, devices made of the drive, or a mounted file system that tells so in sysfs: btrfs, erofs,
// ext4, f2fs, xfs. NVMe drives have the capacity size.
package sysfs
