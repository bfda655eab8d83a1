#!/bin/bash
#SBATCH --gpus-per-node=8
# What public examples for the ND series set.
export UCX_IB_PCI_RELAXED_ORDERING=on \
       NCCL_IB_PCI_RELAXED_ORDERING=1 \
       UCX_TLS=rc \
       NCCL_DEBUG=INFO \
       NCCL_SHARP_DISABLE=1 \
       NCCL_COLLNET_ENABLE=0 \
       NCCL_TOPO_FILE=/microsoft/ndv4-topo.xml \
       CUDA_DEVICE_ORDER=PCI_BUS_ID \
       OMPI_MCA_btl=^openib
srun --gpus-per-node=8 bash -c 'source /opt/hpcx/hpcx-init.sh && all_reduce_perf -b8 -f 2 -g 1 -e 8G'
