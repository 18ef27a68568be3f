/* SPDX-License-Identifier: BSD-3-Clause
 *
 * names.h: every function that Debian's libblas.so.3 (the reference BLAS and CBLAS, 3.11) exports,
 * for forward.S. It says nothing about which of them are our own.
 */
#ifndef FLEETBLAS_LIBBLAS_NAMES_H
#define FLEETBLAS_LIBBLAS_NAMES_H

/* clang-format off */
#define FLEET_FORTRAN_NAMES \
  caxpy_, ccopy_, cdotc_, cdotcsub_, cdotu_, cdotusub_, cgbmv_, cgemm_, cgemv_, cgerc_, cgeru_, \
  chbmv_, chemm_, chemv_, cher2_, cher2k_, cher_, cherk_, chpmv_, chpr2_, chpr_, crotg_, cscal_, \
  csrot_, csscal_, cswap_, csymm_, csyr2k_, csyrk_, ctbmv_, ctbsv_, ctpmv_, ctpsv_, ctrmm_, \
  ctrmv_, ctrsm_, ctrsv_, dasum_, dasumsub_, daxpy_, dcabs1_, dcabs1sub_, dcopy_, ddot_, \
  ddotsub_, dgbmv_, dgemm_, dgemv_, dger_, dnrm2_, dnrm2sub_, drot_, drotg_, drotm_, drotmg_, \
  dsbmv_, dscal_, dsdot_, dsdotsub_, dspmv_, dspr2_, dspr_, dswap_, dsymm_, dsymv_, dsyr2_, \
  dsyr2k_, dsyr_, dsyrk_, dtbmv_, dtbsv_, dtpmv_, dtpsv_, dtrmm_, dtrmv_, dtrsm_, dtrsv_, \
  dzasum_, dzasumsub_, dznrm2_, dznrm2sub_, icamax_, icamaxsub_, idamax_, idamaxsub_, isamax_, \
  isamaxsub_, izamax_, izamaxsub_, lsame_, sasum_, sasumsub_, saxpy_, scabs1_, scabs1sub_, \
  scasum_, scasumsub_, scnrm2_, scnrm2sub_, scopy_, sdot_, sdotsub_, sdsdot_, sdsdotsub_, \
  sgbmv_, sgemm_, sgemv_, sger_, snrm2_, snrm2sub_, srot_, srotg_, srotm_, srotmg_, ssbmv_, \
  sscal_, sspmv_, sspr2_, sspr_, sswap_, ssymm_, ssymv_, ssyr2_, ssyr2k_, ssyr_, ssyrk_, stbmv_, \
  stbsv_, stpmv_, stpsv_, strmm_, strmv_, strsm_, strsv_, xerbla_, xerbla_array_, zaxpy_, \
  zcopy_, zdotc_, zdotcsub_, zdotu_, zdotusub_, zdrot_, zdscal_, zgbmv_, zgemm_, zgemv_, zgerc_, \
  zgeru_, zhbmv_, zhemm_, zhemv_, zher2_, zher2k_, zher_, zherk_, zhpmv_, zhpr2_, zhpr_, zrotg_, \
  zscal_, zswap_, zsymm_, zsyr2k_, zsyrk_, ztbmv_, ztbsv_, ztpmv_, ztpsv_, ztrmm_, ztrmv_, \
  ztrsm_, ztrsv_

#define FLEET_CBLAS_NAMES \
  cblas_caxpy, cblas_ccopy, cblas_cdotc_sub, cblas_cdotu_sub, cblas_cgbmv, cblas_cgemm, \
  cblas_cgemv, cblas_cgerc, cblas_cgeru, cblas_chbmv, cblas_chemm, cblas_chemv, cblas_cher, \
  cblas_cher2, cblas_cher2k, cblas_cherk, cblas_chpmv, cblas_chpr, cblas_chpr2, cblas_crotg, \
  cblas_cscal, cblas_csrot, cblas_csscal, cblas_cswap, cblas_csymm, cblas_csyr2k, cblas_csyrk, \
  cblas_ctbmv, cblas_ctbsv, cblas_ctpmv, cblas_ctpsv, cblas_ctrmm, cblas_ctrmv, cblas_ctrsm, \
  cblas_ctrsv, cblas_dasum, cblas_daxpy, cblas_dcabs1, cblas_dcopy, cblas_ddot, cblas_dgbmv, \
  cblas_dgemm, cblas_dgemv, cblas_dger, cblas_dnrm2, cblas_drot, cblas_drotg, cblas_drotm, \
  cblas_drotmg, cblas_dsbmv, cblas_dscal, cblas_dsdot, cblas_dspmv, cblas_dspr, cblas_dspr2, \
  cblas_dswap, cblas_dsymm, cblas_dsymv, cblas_dsyr, cblas_dsyr2, cblas_dsyr2k, cblas_dsyrk, \
  cblas_dtbmv, cblas_dtbsv, cblas_dtpmv, cblas_dtpsv, cblas_dtrmm, cblas_dtrmv, cblas_dtrsm, \
  cblas_dtrsv, cblas_dzasum, cblas_dznrm2, cblas_icamax, cblas_idamax, cblas_isamax, \
  cblas_izamax, cblas_sasum, cblas_saxpy, cblas_scabs1, cblas_scasum, cblas_scnrm2, cblas_scopy, \
  cblas_sdot, cblas_sdsdot, cblas_sgbmv, cblas_sgemm, cblas_sgemv, cblas_sger, cblas_snrm2, \
  cblas_srot, cblas_srotg, cblas_srotm, cblas_srotmg, cblas_ssbmv, cblas_sscal, cblas_sspmv, \
  cblas_sspr, cblas_sspr2, cblas_sswap, cblas_ssymm, cblas_ssymv, cblas_ssyr, cblas_ssyr2, \
  cblas_ssyr2k, cblas_ssyrk, cblas_stbmv, cblas_stbsv, cblas_stpmv, cblas_stpsv, cblas_strmm, \
  cblas_strmv, cblas_strsm, cblas_strsv, cblas_xerbla, cblas_zaxpy, cblas_zcopy, \
  cblas_zdotc_sub, cblas_zdotu_sub, cblas_zdrot, cblas_zdscal, cblas_zgbmv, cblas_zgemm, \
  cblas_zgemv, cblas_zgerc, cblas_zgeru, cblas_zhbmv, cblas_zhemm, cblas_zhemv, cblas_zher, \
  cblas_zher2, cblas_zher2k, cblas_zherk, cblas_zhpmv, cblas_zhpr, cblas_zhpr2, cblas_zrotg, \
  cblas_zscal, cblas_zswap, cblas_zsymm, cblas_zsyr2k, cblas_zsyrk, cblas_ztbmv, cblas_ztbsv, \
  cblas_ztpmv, cblas_ztpsv, cblas_ztrmm, cblas_ztrmv, cblas_ztrsm, cblas_ztrsv
/* clang-format on */

#endif
